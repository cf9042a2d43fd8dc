"""Objects on their way: pickled, with tensors beside. Unpickling runs code, so that only members of the group, who know
its secret, are listened to.

A message is pieces of bytes: the pickle of an object; if there are tensors in it the pickle of their table, and the
memory of each, which is sent or read from where it lies and stays where it was read to.
"""

import copyreg
import ctypes
import functools
import importlib
import io
import pickle
import sys
import traceback

import tessera

_PICKLE = pickle.PROTO + b"\x05"  # how each of a message's pickles begins
_SMALL = 1 << 12  # bytes of tensors that go with the table: a piece of their own takes longer than a copy


class _Exotic(pickle.Pickler):
    """Pickles what is no plain memory, and leaves out the plain tensors in it."""

    def __init__(self, file, kept):
        super().__init__(file, protocol=5)
        self._kept = kept

    def persistent_id(self, obj):
        return _place(obj, self._kept) if type(obj) is tessera.Tensor and _is_dense(obj) else None


class _ExoticUnpickler(pickle.Unpickler):
    def __init__(self, data, pieces):
        super().__init__(io.BytesIO(data))
        self._pieces = pieces

    def persistent_load(self, pid):
        return _at(pid, self._pieces)


_names: dict = {}


def _place(tensor, kept):
    """What says how a tensor lies in its memory, which goes along or into `kept`."""
    dtype, size, data = tensor.dtype, tensor.numel() * tensor.element_size(), None
    name = _names.get(dtype)
    if name is None:
        name = _names[dtype] = str(dtype).rpartition(".")[2]
    if size <= _SMALL:
        data = ctypes.string_at(tensor.data_ptr(), size)
    else:
        kept.append((tensor, size))
    return name, tuple(tensor.shape), tensor.stride(), data


def _at(place, pieces):
    name, shape, strides, data = place
    memory = next(pieces) if data is None else bytearray(data)
    if type(memory) is bytes:  # large ones come in memory that may be written to
        raise ValueError("what came is no message: the table of its tensors does not fit the pieces")
    flat = tessera.frombuffer(memory, dtype=getattr(tessera, name))
    return flat if flat.shape == shape else flat.as_strided(shape, strides)


def encode(data, rows, trail):
    """(pieces, what has to stay until they are sent) of a message: an object's pickle, its table, its trail."""
    if not rows and trail is None:
        return [data], None
    kept, lines = [], []
    for tensor, target, grad in rows:
        if _is_dense(tensor):
            place = _place(tensor, kept)
        else:
            file = io.BytesIO()
            _Exotic(file, kept).dump(tensor)
            place = file.getvalue()
        lines.append((place, target, grad))
    pieces = [data, pickle.dumps((lines, trail), 5), *((tensor.data_ptr(), size) for tensor, size in kept)]
    return pieces, kept


def decode(pieces):
    """(pickle, table, trail) of pieces that came.

    Raises: ValueError where no pickle begins, as after a wrong head: what unpickling makes of other bytes may ask for
    any amount of memory.
    """
    for piece in pieces[:2]:
        if bytes(memoryview(piece)[:2]) != _PICKLE:
            raise ValueError("what came is no message: its first pieces are no pickles")
    if len(pieces) == 1:
        return pieces[0], [], None
    lines, trail = pickle.loads(pieces[1])
    memory, rows = iter(pieces[2:]), []
    for place, target, grad in lines:
        tensor = _ExoticUnpickler(place, memory).load() if type(place) is bytes else _at(place, memory)
        rows.append((tensor, target, grad))
    return pieces[0], rows, trail


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

    def reducer_override(self, obj):
        """What travels in remote calls alone says how (`_sent`)."""
        sent = getattr(type(obj), "_sent", None)
        return NotImplemented if sent is None else sent(obj)


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
            rows.append((tensor.detach().cpu(), str(target), tensor.requires_grad))
        else:
            rows.append((tensor.detach() if tensor.requires_grad else tensor, None, tensor.requires_grad))
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
        except Exception as error:  # its own signature
            made = error
        if type(made) is self.kind:
            return made
        return RuntimeError(f"{self.text}\nOriginal exception on remote side was {self.kind.__name__}")
