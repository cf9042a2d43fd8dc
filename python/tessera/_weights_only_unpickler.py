"""A restricted interpreter for pickles: data and tensors only.

It differs from `pickle.Unpickler` in that a stream can't do anything but build lists, dicts, sets, tuples, numbers,
strings and
tensors, plus what the caller allowed with `add_safe_globals`. Memory use is bounded by the length of the file (times a
constant: a
byte makes a list), nothing recurses, and every malformed stream ends in `pickle.UnpicklingError`. What may be called,
and with which
arguments, is in `_weights_only_calls`. The C unpickler with a restricted `find_class` would not do: BUILD could
still change attributes of the allowed classes and functions, and a few bytes can make its memo huge.
"""

import struct
from collections import Counter, OrderedDict
from pickle import UnpicklingError

import tessera
from tessera import _weights_only_calls as _calls

_BLOCKED_MODULES = ("sys", "os", "posix", "nt")
_MAX_TUPLE_DEPTH = 200  # hash() of nested tuples recurses in C
_user_globals = []


class _StorageType:
    """Stands for a storage class of the stream; `dtype` is None for untyped storages."""

    __slots__ = ("name", "dtype")

    def __init__(self, name, dtype):
        self.name = name
        self.dtype = dtype


def storage_type(name):
    """The _StorageType for a class name such as 'FloatStorage', or None."""
    if name not in _storage_types:
        from tessera.storage import _KINDS

        if name == "UntypedStorage":
            _storage_types[name] = _StorageType(name, None)
        elif name.endswith("Storage") and name[:-7] in _KINDS and hasattr(tessera, _KINDS[name[:-7]]):
            _storage_types[name] = _StorageType(name, getattr(tessera, _KINDS[name[:-7]]))
        else:
            return None
    return _storage_types[name]


_storage_types = {}


class _Allowed(dict):
    """Qualified name in the stream -> object. Filled lazily, since most streams name only three of them."""

    def __missing__(self, name):
        value = self._find(name)
        if value is not None:
            self[name] = value
        return value

    def _find(self, name):
        module, _, attribute = name.rpartition(".")
        if module in ("torch", "torch.storage") and attribute.endswith("Storage"):
            return storage_type(attribute)
        if module == "torch":
            value = getattr(tessera, attribute, None) if not attribute.startswith("_") else None
            if attribute in ("Size", "Tensor", "device", "memory_format"):
                return value
            if isinstance(value, tessera.dtype) or _is_constant(value, ("qscheme", "memory_format")):
                return value
            return None
        if name in ("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"):
            from tessera.nn import parameter

            value = getattr(parameter, attribute)
            return self._callable(value, _calls.parameter(value))
        if module == "torch._utils":
            found = _calls.rebuilder(attribute)
        else:
            found = {
                "torch._tensor._rebuild_from_type_v2": _calls.from_type,
                "torch.serialization._get_layout": _calls.layout_of,
                "torch.nested._internal.nested_tensor._rebuild_njt": _calls.jagged,
                "torch.nested._internal.nested_tensor.NestedTensor": _calls.jagged_class,
                "torch._dynamo.decorators._DimRange": _calls.range_of_sizes,
            }.get(name, tuple)()
        return self._callable(*found) if found else None

    @staticmethod
    def _callable(value, call):
        _calls.CALLS[value] = call
        return value


def _is_parameter_class(cls):
    if not issubclass(cls, tessera.Tensor):
        return False
    from tessera.nn.parameter import Buffer, Parameter

    return cls is Parameter or cls is Buffer


def _is_constant(value, kinds):
    return any(isinstance(value, getattr(tessera, kind, ())) for kind in kinds)


_allowed = _Allowed(
    {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "builtins.set": set,
        "__builtin__.set": set,
        "builtins.bytearray": bytearray,
        "__builtin__.bytearray": bytearray,
        "builtins.complex": complex,
        "__builtin__.complex": complex,
        "_codecs.encode": _calls.encode,
    }
)


def global_name(obj):
    """Qualified name of a class or function as a stream gives it."""
    module = getattr(obj, "__module__", None) or "builtins"
    if module == "tessera" or module.startswith("tessera."):
        module = "torch" + module[len("tessera") :]
    return f"{module}.{getattr(obj, '__qualname__', getattr(obj, '__name__', repr(obj)))}"


def _user_table():
    table = {}
    for entry in _user_globals:
        obj, name = entry if isinstance(entry, tuple) else (entry, global_name(entry))
        table[name] = obj
        if name.startswith("builtins."):
            table["__builtin__." + name[9:]] = obj
    return table


class Unpickler:
    """Interprets one pickle out of `data` (bytes), starting at `position`.

    `persistent_load` gets the tuples of persistent ids. `nbytes` is the length of the file, which bounds what calls may
    copy
    (default: of `data`). After `load`, `position` is behind the STOP opcode.
    """

    def __init__(self, data, persistent_load, position=0, encoding="utf-8", nbytes=None):
        self.data = data
        self.position = position
        self.persistent_load = persistent_load
        self.encoding = encoding
        self.user = _user_table()
        self.user_types = {obj for obj in self.user.values() if isinstance(obj, type)}
        self.depths = {}  # id of a tuple -> how deep tuples nest in it
        self.callables = {}  # id -> function or class that the stream named
        self.budget = _calls.Budget(len(data) if nbytes is None else nbytes)

    def load(self):
        """The object. Raises: UnpicklingError."""
        try:
            return self._run()
        except UnpicklingError:
            raise
        except (IndexError, KeyError, struct.error):
            raise UnpicklingError("the stream is truncated or corrupted") from None
        except (
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
            MemoryError,
            RecursionError,
            AssertionError,
        ) as error:
            raise UnpicklingError(f"{type(error).__name__}: {error}") from error

    def find_global(self, module, name):
        full = f"{module}.{name}"
        obj = self.user.get(full)
        if obj is None:
            obj = _allowed[full]
        if obj is not None:
            self.callables[id(obj)] = obj
            return obj
        if module.partition(".")[0] in _BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
        if module.startswith("torch.distributed.tensor.") or full == "torch.distributed.device_mesh.DeviceMesh":
            raise UnpicklingError(
                "``torch.distributed.tensor`` must be imported to load DTensors: it allows what they are made of"
            )
        shown = full[len("builtins.") :] if full.startswith("builtins.") else full
        shown = shown[len("__builtin__.") :] if shown.startswith("__builtin__.") else shown
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the "
            f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this global if you trust "
            "this class/function."
        )

    def _tuple(self, items):
        deepest = 0
        for item in items:
            if type(item) is tuple:
                deepest = max(deepest, self.depths.get(id(item), 0))
        if deepest:
            if deepest > _MAX_TUPLE_DEPTH:
                raise UnpicklingError("tuples are nested too deep")
        items = tuple(items)
        if items:
            self.depths[id(items)] = deepest + 1
            self.keep.append(items)
        return items

    def call(self, function, args):
        """`function(*args)` for what the stream named. Raises: UnpicklingError if it may not be called so."""
        if self.callables.get(id(function)) is not function or not callable(function) or type(args) is not tuple:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r:.200}")
        call = _calls.CALLS.get(function)
        if call is not None:
            return call(self, args)
        if not any(obj is function for obj in self.user.values()):
            raise UnpicklingError(f"{function!r:.200} is no function that a checkpoint may call")
        return function(*args)

    def may_make(self, cls):
        """Whether objects of this class are allowed: tensors and parameters, or what the user allowed."""
        return cls in self.user_types or (
            self.callables.get(id(cls)) is cls and (cls is tessera.Tensor or cls in _calls.CALLS)
        )

    def _new_object(self, cls, args, kwargs):
        if type(args) is tuple and type(kwargs) is dict:
            if isinstance(cls, type) and cls in self.user_types:
                return cls.__new__(cls, *args, **kwargs)
            ours = cls is OrderedDict or (isinstance(cls, type) and (cls in _calls.BUILT or _is_parameter_class(cls)))
            if ours and not kwargs:
                return self.call(cls, args)
        raise UnpicklingError(
            f"Trying to instantiate unsupported class {cls!r:.200}: Can only create new object for nn.Parameter or "
            f"classes "
            f"allowlisted via `add_safe_globals`"
        )

    def _build(self, target, state):
        cls = type(target)
        allowed = cls in self.user_types or cls in _calls.BUILT
        if allowed and getattr(cls, "__setstate__", tessera.Tensor.__setstate__) is not tessera.Tensor.__setstate__:
            _calls.call_setstate(self, target, state)
        elif issubclass(cls, tessera.Tensor) and (allowed or cls is tessera.Tensor or _is_parameter_class(cls)):
            _calls.build_tensor(self, target, state)
        elif allowed or cls is OrderedDict:
            _calls.set_state(self, target, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, "
                f"but got {cls}"
            )

    def _append(self, target, items):
        if type(target) is list:
            target.extend(items)
        elif type(target) in self.user_types and hasattr(target, "extend"):
            target.extend(items)
        else:
            raise UnpicklingError(f"Can only append to lists, but got {type(target)}")

    def _set_items(self, target, items):
        if type(target) not in (dict, OrderedDict, Counter) and type(target) not in self.user_types:
            raise UnpicklingError(f"Can only set items of dicts, but got {type(target)}")
        if len(items) % 2:
            raise UnpicklingError("odd number of items for a dict")
        for i in range(0, len(items), 2):
            target[items[i]] = items[i + 1]

    def _slice(self, position, size):
        if size < 0 or position + size > len(self.data):
            raise UnpicklingError("the stream is truncated")
        return self.data[position : position + size]

    def _run(self):
        # The common opcodes of checkpoints are tested first; everything else is in _rare.
        data, position, end = self.data, self.position, len(self.data)
        self.keep = []
        stack, marks, memo = [], [], {}
        append = stack.append
        while position < end:
            code = data[position]
            position += 1
            if code == 0x71:  # BINPUT
                memo[data[position]] = stack[-1]
                position += 1
            elif code == 0x68:  # BINGET
                append(memo[data[position]])
                position += 1
            elif code == 0x4B:  # BININT1
                append(data[position])
                position += 1
            elif code == 0x72:  # LONG_BINPUT
                memo[int.from_bytes(data[position : position + 4], "little")] = stack[-1]
                position += 4
            elif code == 0x6A:  # LONG_BINGET
                append(memo[int.from_bytes(data[position : position + 4], "little")])
                position += 4
            elif code == 0x58:  # BINUNICODE
                size = int.from_bytes(data[position : position + 4], "little")
                append(str(self._slice(position + 4, size), "utf-8", "surrogatepass"))
                position += 4 + size
            elif code == 0x28:  # MARK
                marks.append(len(stack))
            elif code == 0x74:  # TUPLE
                mark = marks.pop()
                items = self._tuple(stack[mark:])
                stack[mark:] = [items]
            elif code == 0x52:  # REDUCE
                args = stack.pop()
                stack[-1] = self.call(stack[-1], args)
            elif code == 0x51:  # BINPERSID
                stack[-1] = self._persistent(stack[-1])
            elif code == 0x89:  # NEWFALSE
                append(False)
            elif code == 0x29:  # EMPTY_TUPLE
                append(())
            elif 0x85 <= code <= 0x87:  # TUPLE1, TUPLE2, TUPLE3
                count = code - 0x84
                if len(stack) < count:
                    raise IndexError
                stack[-count:] = [self._tuple(stack[-count:])]
            elif code == 0x4D:  # BININT2
                append(data[position] | data[position + 1] << 8)
                position += 2
            elif code == 0x4A:  # BININT
                append(struct.unpack_from("<i", data, position)[0])
                position += 4
            elif code == 0x75:  # SETITEMS
                mark = marks.pop()
                items = stack[mark:]
                del stack[mark:]
                self._set_items(stack[-1], items)
            elif code == 0x88:  # NEWTRUE
                append(True)
            elif code == 0x4E:  # NONE
                append(None)
            elif code == 0x2E:  # STOP
                if marks:
                    raise UnpicklingError("the stream ends inside a collection")
                self.position = position
                return stack.pop()
            else:
                position = self._rare(code, position, stack, marks, memo)
        raise EOFError("the stream has no end")

    def _persistent(self, pid):
        if type(pid) is not tuple or not pid:
            raise UnpicklingError(f"persistent_load id must be tuple, but got {type(pid)}")
        if type(pid[0]) is not str or pid[0] != "storage":
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {pid[0]!r}")
        return self.persistent_load(pid)

    def _rare(self, code, position, stack, marks, memo):
        handler = _RARE.get(code)
        if handler is None:
            raise UnpicklingError(f"Unsupported operand {code}")
        return handler(self, position, stack, marks, memo)

    def _line(self, position):
        end = self.data.index(b"\n", position)
        return str(self.data[position:end], "utf-8"), end + 1

    def _op_global(self, position, stack, marks, memo):
        module, position = self._line(position)
        name, position = self._line(position)
        stack.append(self.find_global(module, name))
        return position

    def _op_stack_global(self, position, stack, marks, memo):
        name, module = stack.pop(), stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("STACK_GLOBAL requires str")
        stack.append(self.find_global(module, name))
        return position

    def _op_empty_dict(self, position, stack, marks, memo):
        stack.append({})
        return position

    def _op_empty_list(self, position, stack, marks, memo):
        stack.append([])
        return position

    def _op_empty_set(self, position, stack, marks, memo):
        stack.append(set())
        return position

    def _op_setitem(self, position, stack, marks, memo):
        value, key = stack.pop(), stack.pop()
        self._set_items(stack[-1], [key, value])
        return position

    def _op_append(self, position, stack, marks, memo):
        item = stack.pop()
        self._append(stack[-1], [item])
        return position

    def _op_appends(self, position, stack, marks, memo):
        mark = marks.pop()
        items = stack[mark:]
        del stack[mark:]
        self._append(stack[-1], items)
        return position

    def _op_additems(self, position, stack, marks, memo):
        mark = marks.pop()
        items = stack[mark:]
        del stack[mark:]
        if type(stack[-1]) is not set:
            raise UnpicklingError(f"Can only add items to sets, but got {type(stack[-1])}")
        stack[-1].update(items)
        return position

    def _op_binfloat(self, position, stack, marks, memo):
        stack.append(struct.unpack_from(">d", self.data, position)[0])
        return position + 8

    def _op_long1(self, position, stack, marks, memo):
        size = self.data[position]
        stack.append(int.from_bytes(self._slice(position + 1, size), "little", signed=True))
        return position + 1 + size

    def _op_long4(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<i", self.data, position)
        stack.append(int.from_bytes(self._slice(position + 4, size), "little", signed=True))
        return position + 4 + size

    def _op_short_unicode(self, position, stack, marks, memo):
        size = self.data[position]
        stack.append(str(self._slice(position + 1, size), "utf-8", "surrogatepass"))
        return position + 1 + size

    def _op_unicode8(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<Q", self.data, position)
        stack.append(str(self._slice(position + 8, size), "utf-8", "surrogatepass"))
        return position + 8 + size

    def _op_short_string(self, position, stack, marks, memo):
        size = self.data[position]
        raw = self._slice(position + 1, size)
        stack.append(bytes(raw) if self.encoding == "bytes" else str(raw, self.encoding))
        return position + 1 + size

    def _op_string(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<i", self.data, position)
        raw = self._slice(position + 4, size)
        stack.append(bytes(raw) if self.encoding == "bytes" else str(raw, self.encoding))
        return position + 4 + size

    def _op_bytes(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<I", self.data, position)
        stack.append(bytes(self._slice(position + 4, size)))
        return position + 4 + size

    def _op_short_bytes(self, position, stack, marks, memo):
        size = self.data[position]
        stack.append(bytes(self._slice(position + 1, size)))
        return position + 1 + size

    def _op_bytes8(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<Q", self.data, position)
        stack.append(bytes(self._slice(position + 8, size)))
        return position + 8 + size

    def _op_bytearray8(self, position, stack, marks, memo):
        (size,) = struct.unpack_from("<Q", self.data, position)
        stack.append(bytearray(self._slice(position + 8, size)))
        return position + 8 + size

    def _op_newobj(self, position, stack, marks, memo):
        args = stack.pop()
        stack[-1] = self._new_object(stack[-1], args, {})
        return position

    def _op_newobj_ex(self, position, stack, marks, memo):
        kwargs, args = stack.pop(), stack.pop()
        stack[-1] = self._new_object(stack[-1], args, kwargs)
        return position

    def _op_build(self, position, stack, marks, memo):
        state = stack.pop()
        self._build(stack[-1], state)
        return position

    def _op_memoize(self, position, stack, marks, memo):
        memo[len(memo)] = stack[-1]
        return position

    def _op_frame(self, position, stack, marks, memo):
        return position + 8

    def _op_proto(self, position, stack, marks, memo):
        if self.data[position] > 5:
            raise UnpicklingError(f"unsupported pickle protocol: {self.data[position]}")
        return position + 1


_RARE = {
    0x63: Unpickler._op_global,
    0x93: Unpickler._op_stack_global,
    0x7D: Unpickler._op_empty_dict,
    0x5D: Unpickler._op_empty_list,
    0x8F: Unpickler._op_empty_set,
    0x73: Unpickler._op_setitem,
    0x61: Unpickler._op_append,
    0x65: Unpickler._op_appends,
    0x90: Unpickler._op_additems,
    0x47: Unpickler._op_binfloat,
    0x8A: Unpickler._op_long1,
    0x8B: Unpickler._op_long4,
    0x8C: Unpickler._op_short_unicode,
    0x8D: Unpickler._op_unicode8,
    0x55: Unpickler._op_short_string,
    0x54: Unpickler._op_string,
    0x42: Unpickler._op_bytes,
    0x43: Unpickler._op_short_bytes,
    0x8E: Unpickler._op_bytes8,
    0x96: Unpickler._op_bytearray8,
    0x81: Unpickler._op_newobj,
    0x92: Unpickler._op_newobj_ex,
    0x62: Unpickler._op_build,
    0x94: Unpickler._op_memoize,
    0x95: Unpickler._op_frame,
    0x80: Unpickler._op_proto,
}


def globals_in_pickle(data):
    """Qualified names of all globals that the stream of `data` mentions, without running it."""
    from pickletools import genops

    names, strings = set(), []
    for op, arg, _ in genops(data):
        if op.name == "GLOBAL":
            names.add(arg.replace(" ", ".", 1))
        elif op.name == "STACK_GLOBAL" and len(strings) >= 2:
            names.add(".".join(strings[-2:]))
        elif isinstance(arg, str):
            strings.append(arg)
    return names
