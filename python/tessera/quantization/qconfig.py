"""The older name of `ao.quantization.qconfig`."""

from tessera.ao.quantization.qconfig import *  # noqa: F403
from tessera.ao.quantization.qconfig import __all__ as _all

__all__ = list(_all)
