"""Sends batches from a worker to the loader: a pickle without the bulk, then the bytes of storages and arrays as they are.

Much data goes through anonymous memory files whose descriptors are sent along, and which the receiver maps: one copy, or none where
`empty` gave the batch its memory. Little data goes through the pipe, straight into new storages. Tensors that cover a storage keep sharing it with each other; a tensor that is a
small part of a large storage travels alone.
"""

import io
import mmap
import os
import pickle
import socket
import struct
from multiprocessing import reduction

import tessera
from tessera.storage import TypedStorage, UntypedStorage, _typed, bytes_view

_HEAD = struct.Struct("<QQ?")
_MEMORY_FILE_FROM = 256 * 1024  # bytes; below, the pipe is faster
_ALIGNMENT = 64
_own_files = {}  # identity of a storage -> descriptor of the memory file that it maps; emptied by `send`


class _Pickler(pickle.Pickler):
    def __init__(self, file, storages, buffers):
        super().__init__(file, 5, buffer_callback=buffers.append)
        self.storages = storages
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


def _memory_file(views, sizes):
    """Descriptor of an anonymous file with all buffers, None if the system has none to give."""
    if not hasattr(os, "memfd_create"):
        return None
    offsets, total = _offsets(sizes)
    descriptor = os.memfd_create("tessera-batch", os.MFD_CLOEXEC)
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


def empty(shape, dtype):
    """An uninitialized tensor that `send` needs not copy; None where there are no memory files or the tensor is small."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    if size < _MEMORY_FILE_FROM or not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("tessera-batch", os.MFD_CLOEXEC)
    try:
        os.truncate(descriptor, size)
        mapping = mmap.mmap(descriptor, size)
    except OSError:
        os.close(descriptor)
        return None
    tensor = tessera.frombuffer(mapping, dtype=dtype).view(shape)
    _own_files[tensor.untyped_storage()._cdata] = descriptor
    return tensor


def _socket_of(connection):
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)


def send(connection, obj):
    """Writes `obj` to a `multiprocessing.connection.Connection` over a socket."""
    storages, buffers = [], []
    stream = io.BytesIO()
    try:
        _Pickler(stream, storages, buffers).dump(obj)
        _send_parts(connection, stream.getvalue(), storages, buffers)
    finally:
        while _own_files:
            os.close(_own_files.popitem()[1])


def _send_parts(connection, pickled, storages, buffers):
    """First a message with the counts, the sizes, which storages have files of their own, and the pickle; then descriptors; then bytes."""
    files = [_own_files.get(storage._cdata) for storage in storages]
    sizes = [storage.nbytes() for storage in storages] + [len(buffer.raw()) for buffer in buffers]
    rest = [bytes_view(storage) for storage, file in zip(storages, files) if file is None] + [buffer.raw() for buffer in buffers]
    rest_sizes = [len(view) for view in rest]
    common = _memory_file(rest, rest_sizes) if sum(rest_sizes) >= _MEMORY_FILE_FROM else None
    try:
        own = bytes(file is not None for file in files)
        head = _HEAD.pack(len(storages), len(buffers), common is not None) + own + struct.pack(f"<{len(sizes)}Q", *sizes)
        connection.send_bytes(head + pickled)
        descriptors = [file for file in files if file is not None] + ([common] if common is not None else [])
        if descriptors:
            with _socket_of(connection) as sock:
                for descriptor in descriptors:
                    reduction.sendfds(sock, [descriptor])
    finally:
        if common is not None:
            os.close(common)
    if common is None:
        for view in rest:
            if len(view):
                connection.send_bytes(view)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, storages, buffers):
        super().__init__(file, buffers=buffers)
        self.storages = storages

    def persistent_load(self, pid):
        key, dtype = pid
        return self.storages[key] if dtype is None else _typed(self.storages[key], dtype)


def _storage_over(mapping, size, offset=0):
    if size == 0:
        return UntypedStorage(0)
    return tessera.frombuffer(mapping, dtype=tessera.uint8, count=size, offset=offset).untyped_storage()


def _receive_mapping(sock, size):
    (descriptor,) = reduction.recvfds(sock, 1)
    try:
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _receive_rest(connection, sizes, storage_count, mapping):
    """The storages and buffers that have no file of their own."""
    if mapping is not None:
        offsets, _ = _offsets(sizes)
        storages = [_storage_over(mapping, size, offset) for size, offset in zip(sizes[:storage_count], offsets)]
        view = memoryview(mapping)
        return storages, [view[offset:offset + size] for size, offset in zip(sizes[storage_count:], offsets[storage_count:])]
    storages = [UntypedStorage(size) for size in sizes[:storage_count]]
    buffers = [bytearray(size) for size in sizes[storage_count:]]
    for target in [bytes_view(storage) for storage in storages] + buffers:
        if len(target):
            connection.recv_bytes_into(target)
    return storages, buffers


def receive(connection):
    """Reads what `send` wrote."""
    message = memoryview(connection.recv_bytes())
    storage_count, buffer_count, has_common = _HEAD.unpack_from(message)
    own = bytes(message[_HEAD.size:_HEAD.size + storage_count])
    position = _HEAD.size + storage_count
    sizes = struct.unpack_from(f"<{storage_count + buffer_count}Q", message, position)
    rest_sizes = [size for i, size in enumerate(sizes) if i >= storage_count or not own[i]]
    owned, common = {}, None
    if any(own) or has_common:
        with _socket_of(connection) as sock:
            for i in range(storage_count):
                if own[i]:
                    owned[i] = _storage_over(_receive_mapping(sock, sizes[i]), sizes[i])
            if has_common:
                common = _receive_mapping(sock, _offsets(rest_sizes)[1])
    rest, buffers = _receive_rest(connection, rest_sizes, storage_count - len(owned), common)
    rest = iter(rest)
    storages = [owned[i] if own[i] else next(rest) for i in range(storage_count)]
    return _Unpickler(io.BytesIO(message[position + 8 * len(sizes):]), storages, buffers).load()
