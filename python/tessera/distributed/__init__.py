"""Programs of several processes: groups and their collectives, stores, meshes of devices, launching.

>>> import tessera.distributed as dist
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> x = tessera.ones(2)
>>> dist.all_reduce(x)
>>> x, dist.get_world_size()
(tensor([1., 1.]), 1)
>>> dist.destroy_process_group()
"""

from tessera._lazy import attach as _attach, keep_functions as _keep_functions
from tessera.distributed import distributed_c10d as _c10d
from tessera.distributed._kinds import set_debug_level_from_env as _set_debug_level_from_env
from tessera.distributed.distributed_c10d import *  # noqa: F403
from tessera.distributed.distributed_c10d import _rank_not_in_group

__getattr__, __dir__ = _attach(
    __name__,
    {
        "DeviceMesh": "device_mesh",
        "GradBucket": "_reducer",
        **dict.fromkeys(
            "_CoalescingManager _all_gather_base _broadcast_coalesced _coalescing_manager _reduce_scatter_base "
            "_verify_params_across_processes".split(),
            "_inner",
        ),
        "_DEFAULT_FIRST_BUCKET_BYTES": "_reducer",
        "_compute_bucket_assignment_by_size": "_reducer",
        "_make_nccl_premul_sum": "_kinds",
        "Logger": "_reducer",
        "Reducer": "_reducer",
        "breakpoint": "_breakpoint breakpoint",
        "init_device_mesh": "device_mesh",
    },
)

_elsewhere = ("AllgatherOptions", "GroupName", "default_pg_nccl_timeout")  # names of distributed_c10d alone
__all__ = [name for name in _c10d.__all__ if not name.startswith("_") and name not in _elsewhere]  # noqa: PLE0605

_set_debug_level_from_env()

_keep_functions(__name__, "rendezvous")
