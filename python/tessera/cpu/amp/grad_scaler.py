"""The older name of GradScaler on cpu devices."""

from tessera.amp import grad_scaler as _scaler
from tessera.amp._deprecated import warn_renamed

__all__ = ["GradScaler"]


class GradScaler(_scaler.GradScaler):
    """Deprecated: amp.GradScaler("cpu", ...)."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        warn_renamed("cpu.amp.GradScaler(...)", "amp.GradScaler('cpu', ...)")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
