"""The older name of `ao.quantization.utils`."""

from tessera.ao.quantization.utils import *  # noqa: F403
from tessera.ao.quantization.utils import __all__ as _all

__all__ = list(_all)
