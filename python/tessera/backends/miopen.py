"""MIOpen, a library for AMD devices, which this build does not use; the setting is kept."""

import sys

from tessera.backends import _flags


def flags(immediate=False):
    """Context manager: another setting for a block. Raises: RuntimeError for what is no bool."""
    return _flags.changed(sys.modules[__name__], immediate=immediate)


def set_flags(_immediate=None):
    """Sets `immediate` if it is given; returns the old value in a tuple. Raises: RuntimeError for what is no bool."""
    module = sys.modules[__name__]
    old = module.immediate
    if _immediate is not None:
        module.immediate = _immediate
    return (old,)


_flags.install(sys.modules[__name__], immediate=False)
