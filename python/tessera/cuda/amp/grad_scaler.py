"""The older name of GradScaler on cuda devices."""

from tessera.amp import grad_scaler as _scaler
from tessera.amp._deprecated import warn_renamed

__all__ = ["GradScaler"]


class GradScaler(_scaler.GradScaler):
    """Deprecated: amp.GradScaler("cuda", ...)."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        warn_renamed("cuda.amp.GradScaler(...)", "amp.GradScaler('cuda', ...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
