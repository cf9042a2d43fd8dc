"""Process groups, by the names of the extension."""

from tessera.distributed._checked import CheckedBackend as _ProcessGroupWrapper
from tessera.distributed._fake import FakeProcessGroup, FakeStore
from tessera.distributed._gloo import ProcessGroupGloo
from tessera.distributed._groups import _resolve_process_group
from tessera.distributed._kinds import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    BuiltinCommHookType,
    DebugLevel,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _make_nccl_premul_sum,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from tessera.distributed._process_group import C10dBackend as Backend
from tessera.distributed._process_group import ProcessGroup
from tessera.distributed._reducer import (
    _DEFAULT_FIRST_BUCKET_BYTES,
    GradBucket,
    Logger,
    Reducer,
    _compute_bucket_assignment_by_size,
)
from tessera.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from tessera.distributed._work import Work
from tessera.distributed.constants import _DEFAULT_PG_NCCL_TIMEOUT, _DEFAULT_PG_TIMEOUT

__all__ = [
    "_DEFAULT_FIRST_BUCKET_BYTES",
    "_DEFAULT_PG_NCCL_TIMEOUT",
    "_DEFAULT_PG_TIMEOUT",
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "FakeProcessGroup",
    "FakeStore",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "HashStore",
    "Logger",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "Reducer",
    "ScatterOptions",
    "Store",
    "TCPStore",
    "Work",
    "_ProcessGroupWrapper",
    "_compute_bucket_assignment_by_size",
    "_make_nccl_premul_sum",
    "_resolve_process_group",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]
