"""What programs ask of the inside of remote calls."""

import enum

__all__ = ["RPCExecMode"]


class RPCExecMode(enum.Enum):
    """How a call is made."""

    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"
