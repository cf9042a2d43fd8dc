"""What DTensors send."""

import collections

from tessera.distributed.tensor._api import DTensor
from tessera.utils._python_dispatch import TorchDispatchMode

__all__ = ["CommDebugMode"]

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "scatter", "gather", "reduce")


class CommDebugMode(TorchDispatchMode):
    """Context manager that counts collectives. Counting begins anew at each `with`."""

    def __init__(self):
        super().__init__()
        self._counts = collections.defaultdict(int)

    def __enter__(self):
        self._counts.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # its own operators come here
        packet = func.overloadpacket
        if func.namespace in ("_c10d_functional", "c10d") and packet.__name__.lstrip("_").startswith(_COLLECTIVES):
            self._counts[packet] += 1
        return func(*args, **(kwargs or {}))

    def get_comm_counts(self):
        """{operator: how many calls}."""
        return self._counts

    def get_total_counts(self):
        """How many collectives in all."""
        return sum(self._counts.values())
