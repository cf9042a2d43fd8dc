"""oneDNN, which this build does not use; the settings are kept."""

import sys

from tessera.backends import _flags, _precision

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available():
    """True if the library is part of this build."""
    return False


def is_acl_available():
    """True if the Arm Compute Library is part of this build."""
    return False


def flags(enabled=None, deterministic=None, allow_tf32=None, fp32_precision="none"):
    """Context manager: other settings for a block. fp32_precision: what products may round float32 to; those of the CPU
    use all of its bits, whatever is allowed.
    """
    return _flags.changed(
        sys.modules[__name__],
        enabled=enabled,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"):
    """Sets the given settings; returns the old values of all."""
    given = {
        "enabled": _enabled,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
        "fp32_precision": _fp32_precision,
    }
    return _flags.set_given(sys.modules[__name__], given)


class verbose(_flags.Verbose):
    """Context manager in which the library would report its calls; it makes none in this build, so nothing is printed.

    Args:
        level: VERBOSE_OFF, VERBOSE_ON, or VERBOSE_ON_CREATION for the making of kernels as well.

    Raises: ValueError for another level.
    """

    levels = (VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION)

    def __init__(self, level):
        super().__init__(level)


matmul, conv, rnn = (_precision.family("mkldnn", name) for name in ("matmul", "conv", "rnn"))
_flags.install(
    sys.modules[__name__],
    None,
    _precision.of_module("mkldnn"),
    enabled=True,
    deterministic=False,
    allow_tf32=False,
)
