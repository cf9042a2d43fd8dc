"""Logging handlers of this namespace by name; programs put theirs here."""

import logging

__all__: list = []

_log_handlers: dict = {"default": logging.NullHandler()}
