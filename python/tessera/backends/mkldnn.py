"""oneDNN, which this build does not use; the settings are kept."""

import sys

from tessera.backends import _flags


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


_flags.install(
    sys.modules[__name__],
    enabled=True,
    deterministic=False,
    allow_tf32=False,
    fp32_precision=_flags.Choice("none", "ieee", "tf32", "bf16"),
)
