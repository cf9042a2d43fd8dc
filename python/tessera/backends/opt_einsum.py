"""The package opt_einsum, which orders the products of `einsum`. It is not used: operands are taken from left to
right.
"""

import sys

from tessera.backends import _flags


def is_available():
    """True if the package is used."""
    return False


def get_opt_einsum():
    """The package; None where it is not used."""
    return None


def flags(enabled=None, strategy=None):
    """Context manager: other settings for a block."""
    return _flags.changed(sys.modules[__name__], enabled=enabled, strategy=strategy)


_flags.install(sys.modules[__name__], enabled=False, strategy=None)
