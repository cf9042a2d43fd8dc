"""Training with parameters, gradients and optimizer state cut over processes.

`fully_shard` makes DTensors of a module's parameters, in place; `FullyShardedDataParallel` wraps a module and puts its
parameters one after the other into a flat one. Both gather parameters for forward and backward, and reduce gradients.

>>> import tessera
>>> import tessera.distributed as dist
>>> from tessera.distributed.fsdp import fully_shard
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> model = fully_shard(tessera.nn.Linear(3, 2), mesh=dist.init_device_mesh("cpu", (1,)))
>>> model(tessera.ones(1, 3)).sum().backward()
>>> type(model).__name__, model.weight.grad.full_tensor()
('FSDPLinear', tensor([[1., 1., 1.],
        [1., 1., 1.]]))
>>> dist.destroy_process_group()
"""

from tessera._lazy import attach as _attach
from tessera.distributed.fsdp._policies import *  # noqa: F403
from tessera.distributed.fsdp._policies import __all__ as _values

_sharding = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]
__all__ = [*_values, "FullyShardedDataParallel", *_sharding]  # noqa: F405

__getattr__, __dir__ = _attach(
    __name__,
    {"FullyShardedDataParallel": "fully_sharded_data_parallel", **dict.fromkeys(_sharding, "_fully_shard")},
)
