"""Checkpoints of PyTorch 0.1: a tar archive with the files storages, tensors and pickle.

Each begins with a count (a pickle). An entry of `storages` is the pickle (key, location, class), the number of elements
and the elements; behind the last is the pickle of those that are views, (key, key of the whole, first element, number).
An entry of `tensors` is the pickle (key, key of its storage, class), the number of dimensions in eight bytes, sizes,
strides and offset. The objects are in `pickle`, in which tensors and storages are keys.
"""

import io
import struct
import sys
import tarfile
from pickle import UnpicklingError

import tessera
from tessera.storage import TypedStorage, UntypedStorage, _typed, bytes_view, swap_bytes


class _Entries:
    """One file of the archive, read from its beginning."""

    def __init__(self, archive, name, unpickle):
        try:
            member = archive.extractfile(name)
        except KeyError:
            member = None
        if member is None:
            raise RuntimeError(f"the archive has no file {name!r}; corrupt file?")
        self._stream, self._unpickle = io.BytesIO(member.read()), unpickle

    def pickled(self, persistent_load=None):
        return self._unpickle(self._stream, persistent_load)

    def entries(self, fields):
        """The pickled tuples in front of entries, of so many fields each."""
        count = self.pickled()
        if type(count) is not int:
            raise UnpicklingError(f"expected a number of entries, but got {count!r:.100}")
        for _ in range(count):
            entry = self.pickled()
            if not isinstance(entry, tuple) or len(entry) != fields:
                raise UnpicklingError(f"malformed entry {entry!r:.200}")
            yield entry

    def take(self, nbytes):
        data = self._stream.read(nbytes) if nbytes >= 0 else b""
        if len(data) != nbytes:
            raise RuntimeError("the file is truncated")
        return data

    def numbers(self, count):
        return struct.unpack(f"<{count}q", self.take(8 * count))


def _dtype_of(cls):
    dtype = getattr(cls, "dtype", None)
    if not isinstance(dtype, tessera.dtype):
        raise UnpicklingError(f"expected the class of a storage, but got {cls!r:.100}")
    return dtype


def _read_storages(file, restore):
    made = {}
    for key, location, cls in file.entries(3):
        dtype = _dtype_of(cls)
        (numel,) = file.numbers(1)
        data = file.take(numel * dtype.itemsize)
        whole = UntypedStorage(len(data))
        bytes_view(whole)[:] = data
        if sys.byteorder != "little":
            swap_bytes(bytes_view(whole), dtype.itemsize)
        placed = restore(whole, location)
        made[key] = _typed(placed._untyped_storage if isinstance(placed, TypedStorage) else placed, dtype)
    for key, root, first, size in file.pickled():
        whole, itemsize = made[root], made[root].dtype.itemsize
        if not 0 <= first <= first + size <= len(whole):
            raise UnpicklingError(f"view {key!r} is out of the bounds of storage {root!r}")
        if whole.device.type == "meta":  # has no bytes to share
            part = UntypedStorage(size * itemsize, device="meta")
        else:
            part = whole._untyped_storage[first * itemsize : (first + size) * itemsize]
        made[key] = _typed(part, whole.dtype)
    return made


def _read_tensors(file, storages):
    for key, storage, _cls in file.entries(3):
        (dims,) = struct.unpack("<i4x", file.take(8))
        if not 0 <= dims <= 64:
            raise UnpicklingError(f"a tensor of {dims} dimensions")
        sizes, strides, (offset,) = file.numbers(dims), file.numbers(dims), file.numbers(1)
        typed = storages[storage]
        empty = tessera.empty(0, dtype=typed.dtype, device=typed.device)
        yield key, empty.set_(typed._untyped_storage, offset, sizes, strides)


def load(data, restore, unpickle):
    """The object in the bytes `data` of such an archive.

    Args:
        restore: (storage, location) -> the storage where it shall be.
        unpickle: (stream, function of persistent ids) -> the next object in the stream.

    Raises: RuntimeError, UnpicklingError and tarfile.TarError for archives that are none; KeyError for unknown keys.
    """
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        known = _read_storages(_Entries(archive, "storages", unpickle), restore)
        known.update(_read_tensors(_Entries(archive, "tensors", unpickle), known))
        objects = _Entries(archive, "pickle", unpickle)

        def persistent_load(key):
            return key[0] if isinstance(key, tuple) else known[int(key)]

        return objects.pickled(persistent_load)
