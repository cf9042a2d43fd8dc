"""The older name of `ao.nn.qat`."""

from tessera._lazy import attach as _attach
from tessera.ao.nn.qat import *  # noqa: F403
from tessera.ao.nn.qat import __all__ as _all

__all__ = list(_all)
__getattr__, __dir__ = _attach(__name__)
