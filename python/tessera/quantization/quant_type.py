"""The older name of `ao.quantization.quant_type`."""

from tessera.ao.quantization.quant_type import *  # noqa: F403
from tessera.ao.quantization.quant_type import __all__ as _all

__all__ = list(_all)
