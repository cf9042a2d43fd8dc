"""The older place of `distributed.tensor.experimental`."""

from tessera.distributed.tensor.experimental import context_parallel, implicit_replication, local_map, register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
