"""The older name of `ao.nn.quantized.modules`."""

from tessera.ao.nn.quantized.modules import *  # noqa: F403
from tessera.ao.nn.quantized.modules import __all__ as _all

__all__ = list(_all)
