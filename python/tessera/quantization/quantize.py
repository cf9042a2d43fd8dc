"""The older name of `ao.quantization.quantize`."""

from tessera.ao.quantization.quantize import *  # noqa: F403
from tessera.ao.quantization.quantize import __all__ as _all

__all__ = list(_all)
