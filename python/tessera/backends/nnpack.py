"""NNPACK, which this build does not use; the setting is kept."""

import sys

from tessera.backends import _flags


def is_available():
    """True if the library is part of this build."""
    return False


def set_flags(_enabled):
    """Sets `enabled`; returns the old value in a tuple. Raises: RuntimeError for what is no bool."""
    module = sys.modules[__name__]
    old = module.enabled
    module.enabled = _enabled
    return (old,)


def flags(enabled=False):
    """Context manager: another setting for a block. Raises: RuntimeError for what is no bool."""
    return _flags.changed(sys.modules[__name__], enabled=enabled)


_flags.install(sys.modules[__name__], enabled=True)
