"""Remote calls, by the names of the extension."""

from tessera.distributed.rpc._agent import WorkerInfo
from tessera.distributed.rpc._rref import PyRRef
from tessera.distributed.rpc.api import (
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _rref_context_get_debug_info,
    _set_rpc_timeout,
    get_rpc_timeout,
)
from tessera.distributed.rpc.constants import (
    DEFAULT_INIT_METHOD as _DEFAULT_INIT_METHOD,
)
from tessera.distributed.rpc.constants import (
    DEFAULT_NUM_WORKER_THREADS as _DEFAULT_NUM_WORKER_THREADS,
)
from tessera.distributed.rpc.constants import (
    DEFAULT_RPC_TIMEOUT_SEC as _DEFAULT_RPC_TIMEOUT_SEC,
)
from tessera.distributed.rpc.constants import (
    UNSET_RPC_TIMEOUT as _UNSET_RPC_TIMEOUT,
)
from tessera.distributed.rpc.options import RpcBackendOptions

__all__ = [
    "_DEFAULT_INIT_METHOD",
    "_DEFAULT_NUM_WORKER_THREADS",
    "_DEFAULT_RPC_TIMEOUT_SEC",
    "_UNSET_RPC_TIMEOUT",
    "PyRRef",
    "RpcBackendOptions",
    "WorkerInfo",
    "_get_current_rpc_agent",
    "_is_current_rpc_agent_set",
    "_rref_context_get_debug_info",
    "_set_rpc_timeout",
    "get_rpc_timeout",
]
