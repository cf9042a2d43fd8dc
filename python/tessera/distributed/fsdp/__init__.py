"""Training with parameters cut over processes: the values that say how. (The wrappers are still to come, and raise.)"""

from tessera._lazy import attach as _attach
from tessera._lazy import require as _require
from tessera.distributed.fsdp._policies import *  # noqa: F403
from tessera.distributed.fsdp._policies import __all__ as _values
from tessera.nn import Module as _Module

__all__ = [*_values, "FSDPModule", "FullyShardedDataParallel", "fully_shard"]


class FullyShardedDataParallel(_Module):
    """The wrapper of a module whose parameters are cut over processes. Raises: NotImplementedError, so far."""

    def __init__(self, module, *args, **kwargs):
        super().__init__()
        _require("distributed.fsdp._wrapper", "FullyShardedDataParallel()").install(self, module, *args, **kwargs)


class FSDPModule:
    """What the classes of modules that `fully_shard` has cut derive from."""


def fully_shard(module, **options):
    """Cuts a module's parameters over processes, in place. Raises: NotImplementedError, so far."""
    return _require("distributed.fsdp._shard", "fully_shard()").fully_shard(module, **options)


__getattr__, __dir__ = _attach(__name__)
