"""Modules whose parameters are spread over the processes of one dimension of a mesh.

>>> import tessera
>>> import tessera.distributed as dist
>>> from tessera.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> mesh = dist.init_device_mesh("cpu", (1,))
>>> model = tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 4))
>>> model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
>>> model[0].weight.placements, model(tessera.ones(2, 4)).shape
((Shard(dim=0),), tessera.Size([2, 4]))
>>> dist.destroy_process_group()
"""

from tessera._lazy import attach as _attach
from tessera.distributed.tensor.parallel.api import parallelize_module
from tessera.distributed.tensor.parallel.loss import loss_parallel
from tessera.distributed.tensor.parallel.style import *  # noqa: F403
from tessera.distributed.tensor.parallel.style import __all__ as _styles

__all__ = [*_styles, "loss_parallel", "parallelize_module"]
__getattr__, __dir__ = _attach(__name__)
