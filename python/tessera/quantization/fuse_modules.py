"""The older name of `ao.quantization.fuse_modules`."""

from tessera.ao.quantization.fuse_modules import *  # noqa: F403
from tessera.ao.quantization.fuse_modules import __all__ as _all

__all__ = list(_all)
