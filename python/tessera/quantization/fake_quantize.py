"""The older name of `ao.quantization.fake_quantize`."""

from tessera.ao.quantization.fake_quantize import *  # noqa: F403
from tessera.ao.quantization.fake_quantize import __all__ as _all

__all__ = list(_all)
