"""The older name of `ao.nn.intrinsic.quantized.modules`."""

from tessera.ao.nn.intrinsic.quantized.modules import *  # noqa: F403
from tessera.ao.nn.intrinsic.quantized.modules import __all__ as _all

__all__ = list(_all)
