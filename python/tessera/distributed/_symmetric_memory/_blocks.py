"""Memory that ranks of one machine share: blocks, and what a rank holds of those of all ranks."""

import mmap
import os
import time
import weakref
from datetime import timedelta

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed._objects import all_gather_object
from tessera.distributed._process_group import ProcessGroup

_OWN = 4096  # bytes behind the signals of users: those of the operators, 4 for each rank
_by_address = weakref.WeakValueDictionary()
_settings = {"signal_pad": 9216, "allocated": False}


def _aligned(size):
    return -(-size // 64) * 64


class Block(mmap.mmap):
    """Memory of this process that others can map: data, signals, and signals of the operators.

    It has no name in the file system: when the last process that maps it ends, however it ends, it is gone.
    """

    def __new__(cls, size):
        pad = _settings["signal_pad"]
        total = _aligned(size) + _aligned(pad) + _OWN
        fd = os.memfd_create("symmetric", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, total)
            made = super().__new__(cls, fd, total)
        except BaseException:
            os.close(fd)
            raise
        _settings["allocated"] = True
        made.size, made.pad, made.fd, made.peers = size, pad, fd, weakref.WeakKeyDictionary()
        made.end = weakref.finalize(made, os.close, fd)
        return made


def empty(size, dtype):
    """See _symmetric_memory.empty."""
    block = Block(max(1, _count(size) * dtype.itemsize))
    whole = tessera.frombuffer(block, dtype=tessera.uint8)
    _by_address[whole.data_ptr()] = block
    return whole[: _count(size) * dtype.itemsize].view(dtype).view(size)


def _count(size):
    count = 1
    for length in size:
        count *= length
    return count


def block_of(tensor):
    """The block that a tensor lies in. Raises: RuntimeError if it lies elsewhere."""
    found = None
    if tensor.device.type == "cpu" and tensor.layout is tessera.strided:
        found = _by_address.get(tensor.untyped_storage().data_ptr())
    if found is None:
        raise RuntimeError(
            f"a tensor of shape {tuple(tensor.shape)} on {tensor.device} is not in symmetric memory; make it with "
            "distributed._symmetric_memory.empty()"
        )
    return found


def group_of(group):
    """A ProcessGroup from itself or its name."""
    return group if isinstance(group, ProcessGroup) else groups._resolve_process_group(group)


def _opened(entry, total):
    """Another process's block. Raises: OSError if it is out of reach, or gone."""
    pid, fd = entry
    opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(opened, total)
    finally:
        os.close(opened)


def _machine():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip(), os.readlink("/proc/self/ns/pid")


def _together(group, value):
    found = [None] * group.size()
    all_gather_object(found, value, group)
    return found


def _peers(block, group):
    """The blocks of all ranks; None at this rank's place. All ranks come here, or none; all fail, or none."""
    if group in block.peers:
        return block.peers[group]
    own = (_machine(), block.size, block.pad, (os.getpid(), block.fd))
    found, peers, error = _together(group, own), [], None
    for rank, (machine, size, pad, entry) in enumerate(found):
        try:
            if machine != own[0]:
                raise RuntimeError(f"rank {rank} is on another machine; symmetric memory is for ranks of one")
            if (size, pad) != own[1:3]:
                raise RuntimeError(f"rank {rank} has {size} bytes and signals of {pad}, this one {size, pad!r}")
            peers.append(None if rank == group.rank() else _opened(entry, len(block)))
        except (OSError, RuntimeError) as problem:
            error = error or f"rank {group.rank()}: {problem}"
    errors = [text for text in _together(group, error) if text]
    if errors:
        raise RuntimeError("symmetric memory: " + "; ".join(errors))
    block.peers[group] = peers
    return peers


class SymmetricMemory:
    """The memory of all ranks of a group behind a symmetric tensor: what `rendezvous` gives.

    Addresses are of this process. Signals lie beside the data: each channel has one place for each pair of ranks.
    """

    def __init__(self, tensor, group):
        self._block, self._group = block_of(tensor), group
        self._peers = _peers(self._block, group)
        self._start = tensor.storage_offset() * tensor.itemsize
        self.rank, self.world_size, self.device = group.rank(), group.size(), tensor.device
        self.buffer_size, self.signal_pad_size, self.multicast_ptr = self._block.size, self._block.pad, 0
        if self.world_size * 4 > _OWN:
            raise RuntimeError(f"symmetric memory is for at most {_OWN // 4} ranks, but the group has {group.size()}")

    # ---- memory

    def _bytes(self, rank):
        if not 0 <= rank < self.world_size:
            raise RuntimeError(f"the group has ranks 0 to {self.world_size - 1}, but got {rank}")
        return tessera.frombuffer(self._peers[rank] or self._block, dtype=tessera.uint8)

    @property
    def buffer_ptrs(self):
        """Addresses of the data of all ranks."""
        return [self._bytes(rank).data_ptr() for rank in range(self.world_size)]

    @property
    def signal_pad_ptrs(self):
        """Addresses of the signals of all ranks."""
        return [at + _aligned(self.buffer_size) for at in self.buffer_ptrs]

    @property
    def offset(self):
        """Where the tensor begins in the data, in bytes."""
        return self._start

    def _part(self, rank, start, room, sizes, dtype, storage_offset):
        sizes = tuple(sizes)
        first, length = storage_offset * dtype.itemsize, _count(sizes) * dtype.itemsize
        if first < 0 or first + length > room:
            raise RuntimeError(f"{dtype} of shape {sizes} from element {storage_offset} on exceeds the {room} bytes")
        return self._bytes(rank)[start + first : start + first + length].view(dtype).view(sizes)

    def get_buffer(self, rank, sizes, dtype, storage_offset=0):
        """Data of a rank as a tensor, from element `storage_offset` on. Raises: RuntimeError if they are fewer."""
        return self._part(rank, 0, self.buffer_size, sizes, dtype, storage_offset)

    def get_remote_tensor(self, peer, sizes, dtype):
        """Data of a rank as a tensor, from where the tensor of the rendezvous begins."""
        return self._part(peer, self._start, self.buffer_size - self._start, sizes, dtype, 0)

    def get_signal_pad(self, rank, sizes=(), dtype=None, storage_offset=0):
        """Signals of a rank as a tensor; without `sizes` all; without `dtype` as uint32."""
        dtype = tessera.uint32 if dtype is None else dtype
        sizes = sizes or (self.signal_pad_size // dtype.itemsize - storage_offset,)
        return self._part(rank, _aligned(self.buffer_size), self.signal_pad_size, sizes, dtype, storage_offset)

    def like(self, tensor, rank):
        """The memory of another rank where a tensor of this rank lies in its own, strides and all."""
        whole = self._bytes(rank)
        whole = whole[: whole.numel() // tensor.itemsize * tensor.itemsize].view(tensor.dtype)
        return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    # ---- signals

    def _place(self, channel, source):
        at = channel * self.world_size + source
        if channel < 0 or (at + 1) * 4 > self.signal_pad_size:
            raise RuntimeError(
                f"channel {channel} is not among the {self.signal_pad_size // 4 // self.world_size} that "
                f"{self.signal_pad_size} bytes of signals hold; see set_signal_pad_size()"
            )
        return _aligned(self.buffer_size) + 4 * at

    def _change(self, rank, at, old, new, timeout_ms, what):
        """Waits for `old` at a place, and writes `new`. One rank alone waits for each value of a place."""
        limit = timedelta(milliseconds=timeout_ms) if timeout_ms else self._group._get_backend(self.device)._timeout
        end, turns = time.monotonic() + limit.total_seconds(), 0
        with memoryview(self._peers[rank] or self._block) as view, view.cast("I") as words:
            while words[at // 4] != old:
                if time.monotonic() > end:
                    raise RuntimeError(f"symmetric memory, rank {self.rank}: {what} within {limit}")
                time.sleep(0 if turns < 200 else 5e-5)
                turns += 1
            words[at // 4] = new

    def put_signal(self, dst_rank, channel=0, timeout_ms=0):
        """Gives rank `dst_rank` a signal, as soon as it has taken that of before.

        Args:
            dst_rank: rank of the group.
            channel: which of the places for signals.
            timeout_ms: how long to wait; 0: the timeout of the group.

        Raises: RuntimeError if it does not take it in time.
        """
        self._bytes(dst_rank)
        at = self._place(channel, self.rank)
        self._change(dst_rank, at, 0, 1, timeout_ms, f"rank {dst_rank} did not take the signal of channel {channel}")

    def wait_signal(self, src_rank, channel=0, timeout_ms=0):
        """Waits for the signal of rank `src_rank`, and takes it; see put_signal. What that rank wrote before is seen.

        Raises: RuntimeError if it does not come in time.
        """
        self._bytes(src_rank)
        at = self._place(channel, src_rank)
        self._change(self.rank, at, 1, 0, timeout_ms, f"rank {src_rank} gave no signal in channel {channel}")

    def barrier(self, channel=0, timeout_ms=0):
        """Waits until all ranks are here. Raises: RuntimeError that names one that does not come."""
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        for rank in others:
            self.put_signal(rank, channel, timeout_ms)
        for rank in others:
            self.wait_signal(rank, channel, timeout_ms)

    def meet(self):
        """A barrier of the operators, which leaves the users' signals alone."""
        start = len(self._block) - _OWN
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        for rank in others:
            self._change(rank, start + 4 * self.rank, 0, 1, 0, f"rank {rank} does not take part")
        for rank in others:
            self._change(self.rank, start + 4 * rank, 1, 0, 0, f"rank {rank} does not come")


def rendezvous(tensor, group):
    """See _symmetric_memory.rendezvous."""
    return SymmetricMemory(tensor, group_of(group))
