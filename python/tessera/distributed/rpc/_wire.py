"""Objects on their way: pickled, with tensors beside. Unpickling runs code, so that only members of the group, who know
its secret, are listened to.

A frame is a number of 8 bytes and so many bytes. What comes is the pickle of (header, table of tensors).
"""

import copyreg
import io
import pickle
import struct
import sys
import traceback

import tessera

LARGEST = 1 << 40


class Disconnected(RuntimeError):
    """The other side is gone, or speaks nonsense."""


def send_frame(connection, data):
    """Writes a frame to a socket."""
    connection.sendall(struct.pack("<Q", len(data)))
    connection.sendall(data)


def read_exactly(connection, count):
    """So many bytes of a socket. Raises: Disconnected."""
    buffer = bytearray(count)
    view, at = memoryview(buffer), 0
    while at < count:
        try:
            n = connection.recv_into(view[at:])
        except OSError as error:
            raise Disconnected(str(error)) from None
        if n == 0:
            raise Disconnected("the connection was closed")
        at += n
    return buffer


def read_frame(connection, largest=LARGEST):
    """The bytes of the next frame. Raises: Disconnected, also for a frame that is too large."""
    (size,) = struct.unpack("<Q", read_exactly(connection, 8))
    if size > largest:
        raise Disconnected(f"a frame of {size} bytes")
    return read_exactly(connection, size)


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
        return self._refer(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors, resolve):
        super().__init__(file)
        self._tensors, self._resolve = tensors, resolve

    def persistent_load(self, pid):
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
    """Tensors without history, on the host, each with the device that it goes to.

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
        rows.append((tensor.detach().cpu(), str(target) if target else None))
    return rows


def placed(rows):
    """The tensors of a table, on their devices."""
    return [tensor if target is None else tensor.to(target) for tensor, target in rows]


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
