"""Neural network layers, their functional forms, initialisation and helpers."""

from tessera._lazy import attach as _attach

from . import functional, init, modules, parameter
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__getattr__, __dir__ = _attach(__name__, {"DataParallel": "parallel", "factory_kwargs": "_factory_kwargs"})
