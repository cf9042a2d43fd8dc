"""How tensors and storages are pickled for another process: by their shared memory."""

import os
import weakref
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler

import tessera
from tessera import _shared_memory
from tessera.storage import TypedStorage, UntypedStorage, _typed

__all__ = [
    "ForkingPickler",
    "StorageWeakRef",
    "init_reductions",
    "rebuild_storage_empty",
    "rebuild_storage_fd",
    "rebuild_storage_filename",
    "rebuild_typed_storage",
    "reduce_storage",
    "reduce_tensor",
    "reduce_typed_storage",
]


class StorageWeakRef:
    """A reference that does not keep a storage (typed or not) alive. Those of one storage are equal, and never equal to
    those of another one.
    """

    __slots__ = ("__weakref__", "_free_weak_ref", "cdata")

    def __init__(self, storage):
        self.cdata = getattr(storage, "_untyped_storage", storage)._weak_ref()
        self._free_weak_ref = UntypedStorage._free_weak_ref  # there as long as this is, also when the program ends

    @classmethod
    def from_weakref(cls, cdata):
        """One that takes over the number `cdata`, which `UntypedStorage._weak_ref()` gave."""
        self = cls.__new__(cls)
        self.cdata, self._free_weak_ref = cdata, UntypedStorage._free_weak_ref
        return self

    def expired(self):
        """Whether the storage is gone."""
        return UntypedStorage._expired(self.cdata)

    def __del__(self):
        if hasattr(self, "_free_weak_ref"):
            self._free_weak_ref(self.cdata)

    def __hash__(self):
        return self.cdata

    def __eq__(self, other):
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


def rebuild_storage_empty(cls):
    """A storage of no bytes."""
    return cls(0)


def rebuild_storage_fd(cls, df, size):
    """A storage of `size` bytes over the memory whose descriptor `df` brings."""
    return _shared_memory.receive_descriptor(cls, df.detach(), size)


def rebuild_storage_filename(cls, handle, size):
    """A storage of `size` bytes over the memory with the name `handle`.

    Raises: FileNotFoundError if the name is gone.
    """
    return _shared_memory.receive_path(cls, handle, size)


def rebuild_typed_storage(storage, dtype):
    return _typed(storage, dtype)


def _rebuild_meta_storage(size):
    return UntypedStorage(size, device="meta")


def _descriptor_to_send(descriptor, is_copy):
    popen = get_spawning_popen()
    if popen is not None and is_copy:  # the memory goes before the child is started
        descriptor = os.dup(descriptor)
        weakref.finalize(popen, os.close, descriptor)
    return reduction.DupFd(descriptor)


def reduce_storage(storage):
    """(function, arguments) that make a storage over the same memory in another process.

    Raises: NotImplementedError for memory of a device, RuntimeError and OSError where there is no shared memory to be
        had.
    """
    if storage.device.type == "meta":
        return _rebuild_meta_storage, (storage.nbytes(),)
    if storage.device.type != "cpu":
        raise NotImplementedError(
            f"memory on device {storage.device} can't be sent to another process: send a copy on the CPU (.cpu())"
        )
    cls, size = type(storage), storage.nbytes()
    if size == 0:
        return rebuild_storage_empty, (cls,)
    region, sent = _shared_memory.region_to_send(storage)
    if region.path is not None:
        return rebuild_storage_filename, (cls, _shared_memory.link_to_send(region), size)
    return rebuild_storage_fd, (cls, _descriptor_to_send(region.descriptor, sent is not storage), size)


def reduce_typed_storage(storage):
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def reduce_tensor(tensor):
    """(function, arguments) for a tensor over the same memory.

    Raises: RuntimeError for a tensor that requires grad and is the result of operators: graphs stay in their process.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that requires grad can be sent to another process only if it is a leaf: this one is the result "
            f"of {type(tensor.grad_fn).__name__}, and the graph behind it stays here. Send tensor.detach()."
        )
    return tensor.__reduce_ex__(2)


def init_reductions():
    """Teaches the pickler of the multiprocessing package tensors and storages."""
    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
    ForkingPickler.register(tessera.Tensor, reduce_tensor)
    ForkingPickler.register(tessera.nn.Parameter, reduce_tensor)
