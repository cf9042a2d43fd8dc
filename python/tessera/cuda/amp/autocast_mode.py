"""Older names of autocast on CUDA devices."""

import tessera
from tessera.amp import autocast_mode as _mode
from tessera.amp._deprecated import warn_renamed

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(_mode.autocast):
    """Deprecated: amp.autocast("cuda", ...)."""

    def __init__(self, enabled=True, dtype=tessera.float16, cache_enabled=True):
        warn_renamed("cuda.amp.autocast(...)", "amp.autocast('cuda', ...)")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Deprecated: amp.custom_fwd(..., device_type="cuda")."""
    warn_renamed("cuda.amp.custom_fwd(...)", "amp.custom_fwd(..., device_type='cuda')")
    return _mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Deprecated: amp.custom_bwd(..., device_type="cuda")."""
    warn_renamed("cuda.amp.custom_bwd(...)", "amp.custom_bwd(..., device_type='cuda')")
    return _mode.custom_bwd(bwd, device_type="cuda")
