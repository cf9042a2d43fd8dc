"""The older name of `ao.nn.qat.modules`."""

from tessera.ao.nn.qat.modules import *  # noqa: F403
from tessera.ao.nn.qat.modules import __all__ as _all

__all__ = list(_all)
