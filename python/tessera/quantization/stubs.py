"""The older name of `ao.quantization.stubs`."""

from tessera.ao.quantization.stubs import *  # noqa: F403
from tessera.ao.quantization.stubs import __all__ as _all

__all__ = list(_all)
