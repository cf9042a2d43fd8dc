"""The older name of `ao.nn.quantized.functional`."""

from tessera.ao.nn.quantized.functional import *  # noqa: F403
from tessera.ao.nn.quantized.functional import __all__ as _all

__all__ = list(_all)
