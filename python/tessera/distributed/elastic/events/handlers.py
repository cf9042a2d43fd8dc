"""Where events go: "console", "null", or what is put into this table."""

import logging

__all__ = ["get_logging_handler"]

_log_handlers = {
    "console": logging.StreamHandler(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}


def get_logging_handler(destination="null"):
    """The logging handler of a destination. Raises: KeyError for one that is not known."""
    return _log_handlers[destination]
