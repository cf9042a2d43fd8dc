"""Mixed precision: `autocast` lets each operator of a region compute in the dtype that suits it, `GradScaler` keeps
small gradients from vanishing in float16.

    >>> layer = tessera.nn.Linear(4, 2)
    >>> with tessera.autocast("cpu"):
    ...     result = layer(tessera.ones(1, 4))
    >>> result.dtype
    tessera.bfloat16
"""

from tessera.amp.autocast_mode import (
    _enter_autocast,
    _exit_autocast,
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from tessera.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
