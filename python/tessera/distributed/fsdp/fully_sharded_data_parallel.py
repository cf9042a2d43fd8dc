"""The wrapper, and the values that say how."""

from tessera.distributed.fsdp import FullyShardedDataParallel
from tessera.distributed.fsdp._policies import *  # noqa: F403
from tessera.distributed.fsdp._policies import __all__ as _values

__all__ = [*_values, "FullyShardedDataParallel"]
