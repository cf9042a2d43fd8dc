"""Older names of mixed precision on CUDA devices; tessera.amp has the ones to use."""

from tessera.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from tessera.cuda.amp.common import amp_definitely_not_available
from tessera.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
