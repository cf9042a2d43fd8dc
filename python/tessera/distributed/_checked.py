"""Groups at debug level DETAIL: before a collective, all members compare what they are about to call."""

import tessera
from tessera.distributed._errors import DistBackendError
from tessera.distributed._kinds import AllgatherOptions
from tessera.distributed._process_group import C10dBackend
from tessera.distributed._stores import PrefixStore


def _described(value):
    """Shapes, dtypes and devices of the tensors in nested lists."""
    if isinstance(value, tessera.Tensor):
        return f"{tuple(value.shape)} {value.dtype} {value.device.type}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_described, value))}]"
    return ""


# What may differ between ranks: only one of them gives, or takes, lists of tensors.
_ONE_SIDED = ("gather", "scatter")
_CHECKED = (
    "allreduce allreduce_coalesced broadcast reduce allgather _allgather_base allgather_coalesced "
    "allgather_into_tensor_coalesced gather scatter reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced "
    "alltoall alltoall_base barrier"
).split()


class CheckedBackend(C10dBackend):
    """A backend whose collectives are compared first.

    Args:
        inner: the backend.
        helper: a group of the same members that carries the comparison.
    """

    def __init__(self, inner, helper):
        super().__init__(inner.rank(), inner.size())
        self._inner, self._helper, self._calls = inner, helper, 0
        self._timeout = inner._timeout

    @classmethod
    def around(cls, inner, name, store, rank, size, timeout):
        """A checked backend, whose comparisons go over a gloo group of their own."""
        from tessera.distributed._gloo import ProcessGroupGloo

        return cls(inner, ProcessGroupGloo(PrefixStore(f"checks/{name}", store), rank, size, timeout))

    @property
    def wrapped_pg(self):
        """The backend inside."""
        return self._inner

    def getBackendName(self):
        return self._inner.getBackendName()

    def _set_default_timeout(self, timeout):
        self._timeout = timeout
        self._inner._set_default_timeout(timeout)
        self._helper._set_default_timeout(timeout)

    def shutdown(self):
        self._inner.shutdown()
        self._helper.shutdown()

    def abort(self):
        self._inner.abort()
        self._helper.abort()

    def _compare(self, name, args):
        self._calls += 1
        tensors = args[:1] if name in _ONE_SIDED and name == "scatter" else args[1:2] if name == "gather" else args
        # all_to_all gives and takes what its split sizes say, which may differ
        shown = "" if name.startswith("alltoall") else ", ".join(filter(None, map(_described, tensors)))
        text = f"CollectiveFingerPrint(sequence {self._calls}, {name.upper()}({shown}))".encode()[:1024].ljust(
            1024, b"\0"
        )
        self._helper.monitored_barrier(self._timeout, True)
        own = tessera.frombuffer(bytearray(text), dtype=tessera.uint8)
        every = tessera.empty(self._size * 1024, dtype=tessera.uint8)
        quiet = AllgatherOptions()
        quiet.asyncOp = False
        self._helper._allgather_base(every, own, quiet)
        for rank, row in enumerate(every.view(self._size, 1024).tolist()):
            if bytes(row) != text:
                other = bytes(row).rstrip(b"\0").decode()
                raise DistBackendError(
                    f"Detected mismatch between collectives on ranks. Rank {self._rank} is running collective: "
                    f"{text.rstrip(bytes(1)).decode()}, but rank {rank} is running collective: {other}"
                )

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        return self._inner.monitored_barrier(timeout, wait_all_ranks)

    def send(self, tensors, dstRank, tag=0):
        return self._inner.send(tensors, dstRank, tag)

    def recv(self, tensors, srcRank, tag=0):
        return self._inner.recv(tensors, srcRank, tag)

    def recv_anysource(self, tensors, tag=0):
        return self._inner.recv_anysource(tensors, tag)


def _compared(name):
    def method(self, *args):
        self._compare(name, args)
        return getattr(self._inner, name)(*args)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Compares the call with those of the others, then carries out {name}."
    return method


for _name in _CHECKED:
    setattr(CheckedBackend, _name, _compared(_name))
