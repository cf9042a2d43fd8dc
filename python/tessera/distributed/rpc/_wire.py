"""Objects on their way: pickled, with tensors beside. Unpickling runs code, so that only members of the group, who know
its secret, are listened to.

A frame is a number of pieces, the bytes of each (8 bytes each number), and the pieces: the pickle of a message, and the
memory of the tensors in it, which is written from where it lies and read to where it stays.
"""

import copyreg
import ctypes
import functools
import importlib
import io
import pickle
import struct
import sys
import traceback

import tessera

LARGEST = 1 << 40
_AHEAD = 1 << 16
_SMALL = 1 << 12  # bytes of tensors that go with the pickle: a piece of their own takes longer than a copy


class Disconnected(RuntimeError):
    """The other side is gone, or speaks nonsense."""


def _memory(address, count):
    return memoryview((ctypes.c_char * count).from_address(address)).cast("B")


def _raw(dtype, shape, strides, memory):
    return memory.view(dtype).as_strided(shape, strides)


def _copied(dtype, shape, strides, data):
    flat = tessera.frombuffer(bytearray(data), dtype=dtype)
    return flat if flat.shape == shape else flat.as_strided(shape, strides)


class _MessagePickler(pickle.Pickler):
    """Leaves the memory of tensors out, which `_kept` holds until it is written."""

    def __init__(self, file, buffers):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._kept = []

    def reducer_override(self, obj):
        if type(obj) is not tessera.Tensor or not _is_dense(obj):
            return NotImplemented
        size = obj.numel() * obj.element_size()
        if size <= _SMALL:
            return _copied, (obj.dtype, tuple(obj.shape), obj.stride(), ctypes.string_at(obj.data_ptr(), size))
        self._kept.append(obj)
        memory = pickle.PickleBuffer(_memory(obj.data_ptr(), size))
        return _raw, (obj.dtype, tuple(obj.shape), obj.stride(), memory)


def _is_dense(tensor):
    """Whether a tensor fills one piece of the host's memory with its values, and there is no more to it."""
    plain = tensor.device.type == "cpu" and tensor.layout is tessera.strided and not tensor.is_quantized
    if not plain or tensor.is_conj() or tensor.is_neg() or tensor.requires_grad or tensor.__dict__:
        return False
    if tensor.numel() == 0:
        return False
    if tensor.is_contiguous():
        return True
    size = 1
    for step, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length > 1:
            if step != size:
                return False
            size *= length
    return True


def send_message(connection, message):
    """Writes a message to a socket."""
    file, buffers = io.BytesIO(), []
    pickler = _MessagePickler(file, buffers)
    pickler.dump(message)
    pieces = [file.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = [piece.nbytes for piece in pieces]
    pieces.insert(0, memoryview(struct.pack(f"<{len(sizes) + 1}Q", len(sizes), *sizes)))
    while pieces:
        sent = connection.sendmsg(pieces[:64])
        while pieces and sent >= pieces[0].nbytes:
            sent -= pieces.pop(0).nbytes
        if sent:
            pieces[0] = pieces[0][sent:]


class Reader:
    """What comes at a socket: small pieces by a buffer, so that a message is one call of the system; large ones go to
    where they stay.
    """

    def __init__(self, connection):
        self._connection, self._view, self._at, self._end = connection, memoryview(bytearray(_AHEAD)), 0, 0

    def message(self, largest=LARGEST):
        """The next message. Raises: Disconnected, also for a frame that is too large."""
        (count,) = struct.unpack("<Q", self._exactly(8))
        if not 0 < count <= largest // 8:
            raise Disconnected(f"a frame of {count} pieces")
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        if sum(sizes) > largest:
            raise Disconnected(f"a frame of {sum(sizes)} bytes")
        data, tensors = self._exactly(sizes[0]), []
        if count > 1:
            data = bytes(data)  # more comes in its place
        for size in sizes[1:]:
            tensors.append(tessera.empty(size, dtype=tessera.uint8))
            self._into(_memory(tensors[-1].data_ptr(), size))
        return pickle.loads(data, buffers=tensors)

    def _exactly(self, count):
        end = self._at + count
        if end <= self._end:
            at, self._at = self._at, end
            return self._view[at:end]  # read before more comes in its place
        buffer = bytearray(count)
        self._into(memoryview(buffer))
        return buffer

    def _into(self, view):
        at, size = 0, len(view)
        while at < size:
            if self._at == self._end:
                if size - at >= _AHEAD // 2:
                    _read_into(self._connection, view[at:])
                    return
                self._at, self._end = 0, _received(self._connection, self._view)
            count = min(size - at, self._end - self._at)
            view[at : at + count] = self._view[self._at : self._at + count]
            at, self._at = at + count, self._at + count


def read_exactly(connection, count):
    """So many bytes of a socket. Raises: Disconnected."""
    buffer = bytearray(count)
    _read_into(connection, memoryview(buffer))
    return buffer


def _received(connection, view):
    try:
        n = connection.recv_into(view)
    except OSError as error:
        raise Disconnected(str(error)) from None
    if n == 0:
        raise Disconnected("the connection was closed")
    return n


def _read_into(connection, view):
    at = 0
    while at < len(view):
        at += _received(connection, view[at:])


class _Pickler(pickle.Pickler):
    """Puts tensors into a table, RRefs by what `refer` makes of them."""

    def __init__(self, file, tensors, refer):
        super().__init__(file, protocol=5)
        self._tensors, self._refer = tensors, refer
        self.dispatch_table = copyreg.dispatch_table.copy()

    def persistent_id(self, obj):
        if type(obj) is tessera.Tensor:
            self._tensors.append(obj)
            return ("tensor", len(self._tensors) - 1)
        if type(obj).__name__ == "ScriptFunction":
            return _place_of(obj)
        return self._refer(obj)


def _place_of(function):
    """What stands for a scripted function: the module and the name by which both sides find it."""
    place = "script", function.__module__, function.__qualname__
    try:
        found = _function_at(*place)
    except (ImportError, AttributeError):
        found = None
    if found is not function:
        raise pickle.PicklingError(
            f"a scripted function goes to another worker by its name, but {place[1]}.{place[2]} is another object"
        )
    return place


def _function_at(_, module, name):
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors, resolve):
        super().__init__(file)
        self._tensors, self._resolve = tensors, resolve

    def persistent_load(self, pid):
        if pid[0] == "script":
            return _function_at(*pid)
        return self._tensors[pid[1]] if pid[0] == "tensor" else self._resolve(pid)


def pack(value, refer):
    """(bytes, tensors) of an object. `refer(obj)` gives what stands for an object, or None."""
    file, tensors = io.BytesIO(), []
    _Pickler(file, tensors, refer).dump(value)
    return file.getvalue(), tensors


def unpack(data, tensors, resolve):
    """The object of what `pack` gave."""
    return _Unpickler(io.BytesIO(data), tensors, resolve).load()


def table(tensors, to, device_map):
    """Tensors without history, on the host, each with the device that it goes to and whether it has gradients.

    Raises: RuntimeError for a tensor on a device that no map names."""
    rows = []
    for tensor in tensors:
        target = None
        if tensor.device.type != "cpu":
            target = device_map.get(tensor.device)
            if target is None:
                raise RuntimeError(
                    f"a tensor on {tensor.device} cannot go to {to}: TensorPipeRpcBackendOptions.set_device_map() says "
                    "where to"
                )
        rows.append((tensor.detach().cpu(), str(target) if target else None, tensor.requires_grad))
    return rows


def placed(rows):
    """The tensors of a table, on their devices; those that had gradients are leaves that have."""
    return [(tensor if target is None else tensor.to(target)).requires_grad_(grad) for tensor, target, grad in rows]


class RemoteFailure:
    """An exception on its way: its type, its text, and where it was raised.

    Args:
        error: the exception.
        worker: on which worker.
    """

    def __init__(self, error, worker):
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.text = f"On {worker}:\n{error!r}\n{trace}"
        self.kind = type(error)

    def __getstate__(self):
        module = getattr(sys.modules.get(self.kind.__module__), self.kind.__qualname__, None)
        return {"text": self.text, "kind": self.kind if module is self.kind else RuntimeError}

    def as_error(self):
        """An exception of that type, with the text; RuntimeError if the type takes no text."""
        try:
            made = self.kind(self.text)
        except Exception:  # its own signature
            return RuntimeError(self.text)
        return made if isinstance(made, Exception) else RuntimeError(self.text)
