"""Containers of layers that are computed together."""

from . import fused
from .fused import *  # noqa: F403
from .fused import _FusedModule

__all__ = list(fused.__all__)
