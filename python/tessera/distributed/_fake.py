"""The backend "fake": a group of any size in one process, in which every other member gives the same values and is
never waited for. For programs that plan what they would do."""

import tessera
from tessera.distributed import _memory as memory
from tessera.distributed._kinds import BarrierOptions
from tessera.distributed._process_group import C10dBackend, _BackendOptions
from tessera.distributed._stores import Store
from tessera.distributed._work import DoneWork


class FakeStore(Store):
    """A store without others: whatever is waited for is there."""

    def __init__(self):
        super().__init__()
        self._values = {}

    def set(self, key, value):
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key):
        return self._values.get(key, b"")

    def add(self, key, value):
        self.set(key, str(int(self.get(key) or 0) + value))
        return int(self.get(key))

    def check(self, keys):
        return True

    def wait(self, keys, timeout=None):
        return None

    def num_keys(self):
        return len(self._values)

    def list_keys(self):
        return sorted(self._values)

    def delete_key(self, key):
        return self._values.pop(key, None) is not None


class _FakeOptions(_BackendOptions):
    """What a FakeProcessGroup was made with."""

    def __init__(self, backend="fake"):
        super().__init__(backend)


class FakeProcessGroup(C10dBackend):
    """A member's part in a group without other members.

    Args:
        rank: of this member.
        size: number of members.
        options: not needed.
    """

    Options = _FakeOptions

    def __init__(self, rank, size, options=None):
        super().__init__(rank, size)
        if options is not None and not isinstance(options, _BackendOptions):
            raise TypeError(f"FakeProcessGroup takes its own options, but got {type(options).__name__}")

    def getBackendName(self):
        return "fake"

    @staticmethod
    def _copy(outputs, values):
        with tessera.no_grad():
            for output, value in zip(outputs, values):
                memory.check(output)
                output.detach().copy_(value.detach().reshape(output.shape))
        return DoneWork(outputs)

    def _unchanged(self, tensors, opts=None):
        return DoneWork(list(tensors))

    allreduce = allreduce_coalesced = broadcast = reduce = _unchanged

    def allgather(self, output_lists, input_list, opts):
        return self._copy(output_lists[0], input_list * len(output_lists[0]))

    def _allgather_base(self, output, tensor, opts):
        return self._copy(output.view(self._size, -1).unbind(), [tensor] * self._size)

    def allgather_coalesced(self, output_lists, input_list, opts):
        return self._copy([t for outputs in output_lists for t in outputs], input_list * len(output_lists))

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts):
        for output, tensor in zip(outputs, inputs):
            self._allgather_base(output, tensor, opts)
        return DoneWork(outputs)

    def gather(self, output_lists, input_list, opts):
        return self.allgather(output_lists, input_list, opts) if output_lists else DoneWork([])

    def scatter(self, outputs, input_lists, opts):
        return self._copy(outputs, [input_lists[0][self._rank]]) if input_lists else DoneWork(outputs)

    def reduce_scatter(self, outputs, input_lists, opts):
        return self._copy(outputs, [input_lists[0][self._rank]])

    def _reduce_scatter_base(self, output, tensor, opts):
        return self._copy([output], [tensor.view(self._size, -1)[self._rank]])

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts):
        for output, tensor in zip(outputs, inputs):
            self._reduce_scatter_base(output, tensor, opts)
        return DoneWork(outputs)

    def alltoall_base(self, output, tensor, output_split_sizes, input_split_sizes, opts):
        rows = min(output.shape[0], tensor.shape[0])
        return self._copy([output[:rows]], [tensor[:rows]])

    def alltoall(self, outputs, inputs, opts):
        return self._copy(outputs, inputs)

    def barrier(self, opts=None):
        assert opts is None or isinstance(opts, BarrierOptions)
        return DoneWork([])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        return None

    def send(self, tensors, dstRank, tag=0):
        return DoneWork([])

    def recv(self, tensors, srcRank, tag=0):
        return DoneWork(tensors, source=srcRank)

    def recv_anysource(self, tensors, tag=0):
        return DoneWork(tensors, source=0)
