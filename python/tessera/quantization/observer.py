"""The older name of `ao.quantization.observer`."""

from tessera.ao.quantization.observer import *  # noqa: F403
from tessera.ao.quantization.observer import __all__ as _all

__all__ = list(_all)
