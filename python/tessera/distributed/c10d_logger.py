"""Logs of process groups."""

import functools
import logging
import time

from tessera.distributed import _groups as groups
from tessera.distributed.logging_handlers import _log_handlers

__all__: list = []

_DEFAULT_DESTINATION = "default"


def _get_or_create_logger(destination=_DEFAULT_DESTINATION):
    found = logging.getLogger(f"c10d-{destination}")
    if not found.handlers:
        found.setLevel(logging.DEBUG)
        found.propagate = False
        found.addHandler(_log_handlers[destination])
    return found


_c10d_logger = _get_or_create_logger()


def _about(name):
    about = {"func_name": name}
    if groups.is_initialized():
        about.update(rank=groups.get_rank(), world_size=groups.get_world_size(), backend=groups.get_backend())
    return about


def _exception_logger(func):
    """A function that notes what `func` raises."""

    @functools.wraps(func)
    def noted(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({**_about(func.__name__), "error": repr(error)})
            raise

    return noted


def _time_logger(func):
    """A function that notes how long `func` takes."""

    @functools.wraps(func)
    def noted(*args, **kwargs):
        begin = time.perf_counter()
        value = func(*args, **kwargs)
        _c10d_logger.debug({**_about(func.__name__), "time_spent": f"{time.perf_counter() - begin:.6f} s"})
        return value

    return noted
