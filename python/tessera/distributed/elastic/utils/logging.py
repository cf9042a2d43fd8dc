"""Logs of agents."""

import inspect
import logging
import os

from tessera.distributed.elastic.utils.log_level import get_log_level

__all__ = ["get_logger"]


def get_logger(name=None):
    """A logger with the level that LOGLEVEL says.

    Args:
        name: None: the caller's module.
    """
    if name is None:
        frame = inspect.currentframe()
        name = frame.f_back.f_globals.get("__name__", "elastic") if frame and frame.f_back else "elastic"
    found = logging.getLogger(name)
    found.setLevel(os.environ.get("LOGLEVEL", get_log_level()))
    return found
