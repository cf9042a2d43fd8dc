"""The older name of `ao.nn.intrinsic.quantized.dynamic`."""

from tessera._lazy import attach as _attach
from tessera.ao.nn.intrinsic.quantized.dynamic import *  # noqa: F403
from tessera.ao.nn.intrinsic.quantized.dynamic import __all__ as _all

__all__ = list(_all)
__getattr__, __dir__ = _attach(__name__)
