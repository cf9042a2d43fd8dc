"""Python's multiprocessing, whose queues, pipes and arguments carry tensors by sharing their memory.

All names of the standard package are here. A storage that is sent moves to shared memory first, and every process that
gets it sees what any of them writes. Only leaves of the graph can be sent; a gradient does not travel with its tensor.
"""

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from tessera import _shared_memory
from tessera.multiprocessing.reductions import init_reductions
from tessera._lazy import keep_functions as _keep_functions
from tessera.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_standard.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_supports_context = True


def set_sharing_strategy(new_strategy):
    """Sets how CPU memory goes to other processes: "file_descriptor" (a descriptor is sent, which each process keeps
    while it has the memory) or "file_system" (a name in /dev/shm is sent; needs few descriptors).

    What is shared already stays as it is.

    Raises: AssertionError for any other value.
    """
    _shared_memory.set_strategy(new_strategy)


def get_sharing_strategy():
    """The strategy by which memory is shared."""
    return _shared_memory.strategy()


def get_all_sharing_strategies():
    """The set of strategies that this system has."""
    return set(_shared_memory.STRATEGIES)


init_reductions()

_keep_functions(__name__, "spawn")
