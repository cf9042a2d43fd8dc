"""Tensors that are spread over the processes of a mesh, and look like one.

>>> import tessera
>>> import tessera.distributed as dist
>>> from tessera.distributed.tensor import Shard, distribute_tensor
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> mesh = dist.init_device_mesh("cpu", (1,))
>>> d = distribute_tensor(tessera.ones(4, 2), mesh, [Shard(0)])
>>> d.placements, (d * 2).full_tensor().sum()
((Shard(dim=0),), tensor(16.))
>>> dist.destroy_process_group()
"""

from tessera import serialization as _serialization
from tessera._lazy import attach as _attach
from tessera.distributed.device_mesh import DeviceMesh, init_device_mesh
from tessera.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from tessera.distributed.tensor._factories import empty, full, ones, rand, randn, zeros
from tessera.distributed.tensor._spec import DTensorSpec as _DTensorSpec
from tessera.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]

# What checkpoints with DTensors name.
_serialization.add_safe_globals([DTensor, _DTensorSpec, DeviceMesh, Shard, _StridedShard, Replicate, Partial])

__getattr__, __dir__ = _attach(__name__)
