"""The older place of `distributed.tensor.experimental`."""

from tessera.distributed.tensor.experimental import implicit_replication, local_map, register_sharding

__all__ = ["implicit_replication", "local_map", "register_sharding"]
