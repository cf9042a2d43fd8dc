"""The older name of `ao.nn.intrinsic.modules`."""

from tessera.ao.nn.intrinsic.modules import *  # noqa: F403
from tessera.ao.nn.intrinsic.modules import __all__ as _all

__all__ = list(_all)
