"""Handlers of the logger of checkpoints, by name."""

import logging

from tessera.distributed.checkpoint.logger import DCP_LOGGER_NAME
from tessera.distributed.logging_handlers import _log_handlers

__all__ = []

_log_handlers.setdefault(DCP_LOGGER_NAME, logging.NullHandler())
