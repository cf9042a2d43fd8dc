"""The logger of checkpoints."""

import logging

__all__ = []

DCP_LOGGER_NAME = "dcp_logger"
_dcp_logger = logging.getLogger(f"tessera.distributed.checkpoint.{DCP_LOGGER_NAME}")
_dcp_logger.addHandler(logging.NullHandler())
