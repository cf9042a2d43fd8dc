"""Calls of functions in other processes, and references to values there.

    rpc.init_rpc("worker0", rank=0, world_size=2)
    y = rpc.rpc_sync("worker1", tessera.add, args=(x, 1))
    reference = rpc.remote("worker1", Model)
    z = reference.rpc_sync().forward(x)
    rpc.shutdown()

What workers send each other is pickled, and unpickling runs code: workers are processes that trust each other. An agent
listens at the address of TP_SOCKET_IFNAME, else that of GLOO_SOCKET_IFNAME or of the host's name, to those alone who
know a secret that went through the store.
"""

from tessera._lazy import attach as _attach
from tessera.distributed.rpc._agent import WorkerInfo
from tessera.distributed.rpc._rref import PyRRef, RRef
from tessera.distributed.rpc.api import (
    AllGatherStates,
    _all_gather,
    _is_current_rpc_agent_set,
    _rref_context_get_debug_info,
    _set_rpc_timeout,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    is_available,
    method_factory,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from tessera.distributed.rpc.backend_registry import BackendType
from tessera.distributed.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions

new_method = method_factory("owner_name", PyRRef.owner_name.__doc__)
new_method.__module__, new_method.__qualname__ = __name__, "new_method"

__getattr__, __dir__ = _attach(__name__)

__all__ = [
    "BackendType",
    "PyRRef",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
