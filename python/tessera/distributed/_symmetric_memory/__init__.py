"""Symmetric memory: tensors that lie alike in all ranks of a group, and that each rank reads and writes in others.

Here it is memory of the host, for ranks of one machine. Operators on it are in `tessera.ops.symm_mem`.

>>> import tessera.distributed as dist
>>> import tessera.distributed._symmetric_memory as symm_mem
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> x = symm_mem.empty(2).fill_(3.0)
>>> memory = symm_mem.rendezvous(x, dist.group.WORLD)
>>> memory.get_buffer(0, (2,), tessera.float32)
tensor([3., 3.])
>>> dist.destroy_process_group()
"""

import tessera
from tessera.distributed._symmetric_memory import _blocks, _operators
from tessera.distributed._symmetric_memory._blocks import SymmetricMemory as _SymmetricMemory

__all__ = [
    "empty",
    "get_backend",
    "get_mem_pool",
    "get_signal_pad_size",
    "is_nvshmem_available",
    "rendezvous",
    "set_backend",
    "set_signal_pad_size",
]

_enabled = set()


def empty(*size, dtype=None, device=None):
    """A tensor in memory that `rendezvous` makes known to other ranks; its values are not defined.

    Args:
        *size: lengths, or one sequence of them.
        dtype: None: the default.
        device: None: the default; of the CPU.

    Raises: RuntimeError for another device.
    """
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    device = tessera.get_default_device() if device is None else tessera.device(device)
    if device.type != "cpu":
        raise RuntimeError(f"symmetric memory is memory of the host here: device has to be 'cpu', but got {device}")
    return _blocks.empty(size, tessera.get_default_dtype() if dtype is None else dtype)


def rendezvous(tensor, group):
    """What a rank needs to reach the memory of the others. All ranks of the group call it, in the same order.

    Args:
        tensor: in memory from `empty`, of the same size everywhere.
        group: ProcessGroup, or its name.

    Returns: _SymmetricMemory. Raises: RuntimeError, in all ranks, if a rank is on another machine or has another size;
        for other tensors.
    """
    return _blocks.rendezvous(tensor, group)


def put_signal(src, hdl, peer):
    """Writes a tensor to the beginning of what rank `peer` has, and gives it a signal.

    Args:
        src: tensor, not larger than the memory.
        hdl: _SymmetricMemory.
        peer: rank of the group.
    """
    hdl.get_remote_tensor(peer, src.shape, src.dtype).copy_(src)
    hdl.put_signal(peer)


def wait_signal(hdl, peer):
    """Waits for the signal of rank `peer`'s `put_signal`; its data are there."""
    hdl.wait_signal(peer)


def is_nvshmem_available():
    """False."""
    return False


def set_backend(name):
    """Chooses how memory of GPUs is shared. Raises: RuntimeError: symmetric memory is memory of the host here."""
    raise RuntimeError(f"symmetric memory is memory of the host here: there is no backend {name!r} to choose")


def get_backend(device):
    """How memory of a device is shared: "CPU" for the host, else None."""
    return "CPU" if tessera.device(device).type == "cpu" else None


def get_mem_pool(device):
    """A pool of symmetric memory of a GPU. Raises: RuntimeError: there is none; use `empty`."""
    raise RuntimeError(f"there is no pool of symmetric memory for device {device}; empty() makes such tensors")


def set_signal_pad_size(size):
    """How many bytes of signals go with each tensor from now on. Raises: RuntimeError once there is one, ValueError for
    a size that is not positive.
    """
    if _blocks._settings["allocated"]:
        raise RuntimeError("set_signal_pad_size() comes before the first symmetric tensor")
    if size <= 0 or size % 4:
        raise ValueError(f"the size of signals is a positive multiple of 4 bytes, but got {size}")
    _blocks._settings["signal_pad"] = int(size)


def get_signal_pad_size():
    """How many bytes of signals go with each tensor: 9216, or what set_signal_pad_size said."""
    return _blocks._settings["signal_pad"]


def enable_symm_mem_for_group(group_name):
    """Notes that a group is to use symmetric memory. Raises: RuntimeError for an unknown name."""
    _enabled.add(_blocks.group_of(group_name).group_name)


def is_symm_mem_enabled_for_group(group_name):
    """Whether enable_symm_mem_for_group was called for a group."""
    return group_name in _enabled


def get_symm_mem_workspace(group_name, min_size):
    """Memory of a group for whoever needs some now: _SymmetricMemory of `min_size` bytes or more. All ranks call it."""
    group = _blocks.group_of(group_name)
    found = getattr(group, "_symmetric_workspace", None)
    if found is None or found.buffer_size < min_size:
        found = group._symmetric_workspace = rendezvous(empty(min_size, dtype=tessera.uint8, device="cpu"), group)
    return found


_library = _operators.defined()
