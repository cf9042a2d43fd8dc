"""The older name of `ao.nn.quantized.dynamic.modules`."""

from tessera.ao.nn.quantized.dynamic.modules import *  # noqa: F403
from tessera.ao.nn.quantized.dynamic.modules import __all__ as _all

__all__ = list(_all)
