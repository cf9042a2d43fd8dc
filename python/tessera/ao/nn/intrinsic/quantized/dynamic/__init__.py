"""Fused layers that round their input at each call."""

from tessera._lazy import attach as _attach

from .modules import *  # noqa: F403
from .modules import __all__ as _all

__all__ = list(_all)
__getattr__, __dir__ = _attach(__name__)
