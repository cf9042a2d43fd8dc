"""The older name of autocast on the CPU."""

import tessera
from tessera.amp import autocast_mode as _mode
from tessera.amp._deprecated import warn_renamed

__all__ = ["autocast"]


class autocast(_mode.autocast):
    """Deprecated: amp.autocast("cpu", ...)."""

    def __init__(self, enabled=True, dtype=tessera.bfloat16, cache_enabled=True):
        warn_renamed("cpu.amp.autocast(...)", "amp.autocast('cpu', ...)")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
