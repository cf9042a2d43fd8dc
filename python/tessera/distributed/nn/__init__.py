"""Collectives through which gradients flow, and modules on other workers."""

from tessera._lazy import attach as _attach
from tessera.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__getattr__, __dir__ = _attach(__name__, {"RemoteModule": "api.remote_module"})

__all__ = [
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
