"""The older name of `ao.nn.quantizable.modules`."""

from tessera.ao.nn.quantizable.modules import *  # noqa: F403
from tessera.ao.nn.quantizable.modules import __all__ as _all

__all__ = list(_all)
