"""The older name of `ao.quantization.quantize_fx`."""

from tessera.ao.quantization.quantize_fx import *  # noqa: F403
from tessera.ao.quantization.quantize_fx import __all__ as _all

__all__ = list(_all)
