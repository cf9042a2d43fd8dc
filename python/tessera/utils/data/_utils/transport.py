"""Sends batches from a worker to the loader: a pickle without the bulk, then the bytes of storages and arrays as they
are.

Much data goes through anonymous memory files whose descriptors are sent along, and which the receiver maps: one copy,
or none where `empty` gave the batch its memory. Such a file belongs to the memory of the storage (it dies with it,
and is lost when the storage gets other memory) and is given away once: a storage that is sent again is copied.
Neither process sees what the other writes after the sending: the receiver's writes stay off the file if the sender
still has the memory when it writes the parcel, which it then has for itself. Little data goes through the pipe,
straight into new storages. Tensors that cover a storage keep sharing it with each other; a tensor that is a small
part of a large storage travels alone.
"""

import errno
import io
import os
import pickle
import socket
import struct
import time
from multiprocessing import reduction

import tessera
from tessera.storage import TypedStorage, UntypedStorage, _typed, bytes_view

# Storages, buffers, length of the key's pickle, whether there is a file for what has none of its own.
_HEAD = struct.Struct("<QQQ?")
_MEMORY_FILE_FROM = 256 * 1024  # bytes; below, the pipe is faster
_ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    def __init__(self, file, storages, buffers):
        super().__init__(file, 5, buffer_callback=buffers.append)
        self.storages = storages  # keeps them, and so their identity, alive
        self.keys = {}

    def persistent_id(self, obj):
        if isinstance(obj, UntypedStorage):
            untyped, dtype = obj, None
        elif isinstance(obj, TypedStorage):
            untyped, dtype = obj._untyped_storage, obj.dtype
        else:
            return None
        if untyped.device.type != "cpu":
            return None
        key = self.keys.get(untyped._cdata)
        if key is None:
            key = self.keys[untyped._cdata] = len(self.storages)
            self.storages.append(untyped)
        return key, dtype

    def reducer_override(self, obj):
        if type(obj) is tessera.Tensor and _is_part(obj):
            return obj.detach().clone().__reduce_ex__(2) if not obj.requires_grad else NotImplemented
        return NotImplemented


def _is_part(tensor):
    if tensor.device.type != "cpu" or not str(tensor.layout).endswith("strided") or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.dtype.itemsize < tensor.untyped_storage().nbytes()


def _offsets(sizes):
    """Where each buffer begins in the memory file, and its length."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def _memory_file(views):
    """Descriptor of an anonymous file with all buffers, None if the system has none to give."""
    offsets, total = _offsets([len(view) for view in views])
    try:
        descriptor = os.memfd_create("tessera-batch", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # an interpreter without it; no descriptor left
        return None
    try:
        os.truncate(descriptor, total)
        for view, offset in zip(views, offsets):
            done = 0
            while done < len(view):
                done += os.pwrite(descriptor, view[done:], offset + done)
    except OSError:  # out of memory
        os.close(descriptor)
        return None
    return descriptor


def _contiguous_strides(shape):
    strides = [1]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * max(length, 1))
    return tuple(reversed(strides))


def empty(shape, dtype):
    """An uninitialized tensor that `pack` needs not copy; None where there are no memory files or the tensor is small.

    Until it is sent, its memory is shared with processes that this one forks.
    """
    size = dtype.itemsize
    for length in shape:
        size *= length
    storage = UntypedStorage._new_in_file(size) if size >= _MEMORY_FILE_FROM else None
    if storage is None:
        return None
    return tessera.empty(0, dtype=dtype).set_(storage, 0, shape, _contiguous_strides(shape))


# Where the bytes of a storage are: among the rest; in a file that the sender has as well; in one that it has not.
_NO_FILE, _KEPT, _ALONE = range(3)


class Parcel:
    """What `write` writes. Its descriptors are closed when it is written, closed or dropped."""

    def __init__(self):
        self.files = []  # (descriptor, number) or None for each storage
        self.common = None  # descriptor of the file with the rest
        self.sizes = []
        self.views = []  # the rest, where it goes through the pipe
        self.pickles = ()  # of the key and the object

    def head(self):
        is_kept = UntypedStorage._is_kept
        own = bytes(_NO_FILE if file is None else _KEPT if is_kept(file[1]) else _ALONE for file in self.files)
        counts = _HEAD.pack(len(own), len(self.sizes) - len(own), len(self.pickles[0]), self.common is not None)
        return b"".join((counts, own, struct.pack(f"<{len(self.sizes)}Q", *self.sizes), *self.pickles))

    def descriptors(self):
        found = [file[0] for file in self.files if file is not None]
        return found if self.common is None else [*found, self.common]

    def close(self):
        descriptors, self.files, self.common = self.descriptors(), [], None
        for descriptor in descriptors:
            os.close(descriptor)

    __del__ = close


def pack(key, obj):
    """A Parcel of two objects; `key` is small and is known even if `obj` can't be unpickled.

    All that may fail for their sake fails here. A sender that drops `obj` before it writes the parcel spares the
    receiver
    copies of the pages that it writes to.
    """
    storages, buffers = [], []
    stream = io.BytesIO()
    pickled_key = pickle.dumps(key, 5)
    _Pickler(stream, storages, buffers).dump(obj)
    views = [buffer.raw() for buffer in buffers]
    parcel = Parcel()
    parcel.pickles = pickled_key, stream.getbuffer()
    parcel.sizes = [storage.nbytes() for storage in storages] + [len(view) for view in views]
    for storage in storages:
        parcel.files.append(storage._give_file())
    rest = [bytes_view(storage) for storage, file in zip(storages, parcel.files) if file is None] + views
    if sum(map(len, rest)) >= _MEMORY_FILE_FROM:
        parcel.common = _memory_file(rest)
    if parcel.common is None:
        parcel.views = [view for view in rest if len(view)]
    return parcel


def _socket_of(connection):
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


def hang_up(connection):
    """Ends both directions: who waits at either end, in whatever process, gets an error or the end of the stream."""
    try:
        with _socket_of(connection) as sock:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed, or the other end is gone
        pass


def _send_descriptor(sock, descriptor):
    while True:
        try:
            reduction.sendfds(sock, [descriptor])
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
        time.sleep(0.01)  # as many are under way as a user may have; the receiver takes some


def write(connection, parcel):
    """Writes a parcel to a `multiprocessing.connection.Connection` over a socket, and closes the parcel.

    After an error the connection is unusable.
    """
    try:
        connection.send_bytes(parcel.head())
        descriptors = parcel.descriptors()
        if descriptors:
            with _socket_of(connection) as sock:
                for descriptor in descriptors:
                    _send_descriptor(sock, descriptor)
        for view in parcel.views:
            connection.send_bytes(view)
    finally:
        parcel.close()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, storages, buffers):
        super().__init__(file, buffers=buffers)
        self.storages = storages

    def persistent_load(self, pid):
        key, dtype = pid
        return self.storages[key] if dtype is None else _typed(self.storages[key], dtype)


def _receive_file(sock, size, where=_ALONE):
    """A storage over the file of which a descriptor arrives."""
    (descriptor,) = reduction.recvfds(sock, 1)
    try:
        return UntypedStorage._over_file(descriptor, size, where == _ALONE)
    finally:
        os.close(descriptor)


def _receive_rest(connection, sizes, storage_count, file):
    """The storages and buffers that have no file of their own."""
    if file is not None:
        offsets, _ = _offsets(sizes)
        view = memoryview(file) if len(sizes) > storage_count else None
        storages = [file[offset : offset + size] for size, offset in zip(sizes[:storage_count], offsets)]
        return storages, [
            view[offset : offset + size] for size, offset in zip(sizes[storage_count:], offsets[storage_count:])
        ]
    storages = [UntypedStorage(size) for size in sizes[:storage_count]]
    buffers = [bytearray(size) for size in sizes[storage_count:]]
    for target in [bytes_view(storage) for storage in storages] + buffers:
        if len(target):
            connection.recv_bytes_into(target)
    return storages, buffers


def _receive_parts(connection):
    """(pickled key, pickled object, storages, buffers).

    Raises: EOFError where the other end closes, is killed or sends something else.
    """
    try:
        message = memoryview(connection.recv_bytes())
        storage_count, buffer_count, key_length, has_common = _HEAD.unpack_from(message)
        own = bytes(message[_HEAD.size : _HEAD.size + storage_count])
        position = _HEAD.size + storage_count
        sizes = struct.unpack_from(f"<{storage_count + buffer_count}Q", message, position)
        position += 8 * len(sizes)
        rest_sizes = [size for i, size in enumerate(sizes) if i >= storage_count or own[i] == _NO_FILE]
        owned, common = [], None
        if any(own) or has_common:
            with _socket_of(connection) as sock:
                owned = [_receive_file(sock, size, where) for size, where in zip(sizes, own) if where != _NO_FILE]
                if has_common:
                    common = _receive_file(sock, _offsets(rest_sizes)[1])
        rest, buffers = _receive_rest(connection, rest_sizes, storage_count - len(owned), common)
    except (OSError, RuntimeError, struct.error) as error:
        raise EOFError(f"a batch did not arrive whole: {error}") from error
    owned, rest = iter(owned), iter(rest)
    storages = [next(rest if where == _NO_FILE else owned) for where in own]
    return message[position : position + key_length], message[position + key_length :], storages, buffers


def receive(connection, failed):
    """(key, object) of what `write` wrote.

    In place of an object that can't be unpickled comes `failed()`, called while the exception is handled.

    Raises: EOFError where the other end closes or is killed, also in the middle.
    """
    pickled_key, pickled, storages, buffers = _receive_parts(connection)
    key = pickle.loads(pickled_key)
    try:
        return key, _Unpickler(io.BytesIO(pickled), storages, buffers).load()
    except Exception:
        return key, failed()
