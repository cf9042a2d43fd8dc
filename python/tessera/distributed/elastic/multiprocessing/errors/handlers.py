"""Which object writes error files."""

from tessera.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

__all__ = ["get_error_handler"]


def get_error_handler():
    """What writes this process's error file."""
    return ErrorHandler()
