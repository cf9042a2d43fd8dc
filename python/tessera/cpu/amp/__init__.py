"""Older names of mixed precision on the CPU; tessera.amp has the ones to use."""

from tessera.cpu.amp.autocast_mode import autocast
from tessera.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
