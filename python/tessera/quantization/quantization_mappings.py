"""The older name of `ao.quantization.quantization_mappings`."""

from tessera.ao.quantization.quantization_mappings import *  # noqa: F403
from tessera.ao.quantization.quantization_mappings import __all__ as _all

__all__ = list(_all)
