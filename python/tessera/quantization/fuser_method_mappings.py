"""The older name of `ao.quantization.fuser_method_mappings`."""

from tessera.ao.quantization.fuser_method_mappings import *  # noqa: F403
from tessera.ao.quantization.fuser_method_mappings import __all__ as _all

__all__ = list(_all)
