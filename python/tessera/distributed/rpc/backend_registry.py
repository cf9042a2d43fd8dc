"""The kinds of agents."""

import enum

from tessera.distributed.rpc.options import TensorPipeRpcBackendOptions

__all__ = ["BackendType", "backend_registered"]


class BackendType(enum.Enum):
    """The kinds of agents: TENSORPIPE, which speaks TCP."""

    TENSORPIPE = "TENSORPIPE"

    def __repr__(self):
        return f"BackendType.{self.name}"


def backend_registered(backend_name):
    """Whether there is a kind of this name."""
    return backend_name in BackendType.__members__


def construct_rpc_backend_options(backend, rpc_timeout=60.0, init_method="env://", **kwargs):
    """The options of a kind of agent."""
    if backend != BackendType.TENSORPIPE:
        raise ValueError(f"there is no agent of the kind {backend!r}")
    return TensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method, **kwargs)
