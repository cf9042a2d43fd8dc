"""What a restricted pickle may call, and with what: for each function or class the arguments that checkpoints really
give it.

A call takes exact types (no tensor where an int is expected, although it has `__index__`; no subclass), counts that the
file bounds
(`Budget`), and states that add attributes without hiding any of the class.
"""

import types
from collections import Counter, OrderedDict
from pickle import UnpicklingError

import tessera
from tessera.storage import TypedStorage, UntypedStorage

_MAX_DIMS = 64
_MISSING = object()


class Budget:
    """How many elements calls may copy, all together: eight for each byte of the file, since there are calls within
    calls. A small
    file then makes no huge object by naming one of its parts again and again."""

    __slots__ = ("left",)

    def __init__(self, nbytes):
        self.left = 8 * nbytes

    def charge(self, count):
        """Raises: UnpicklingError where the file is too small for that."""
        self.left -= count
        if self.left < 0:
            raise UnpicklingError("the objects in the checkpoint are larger than the file")


def _is_tensor(value):
    return issubclass(type(value), tessera.Tensor)


def _is_sizes(value):
    return type(value) in (tuple, list, tessera.Size) and len(value) <= _MAX_DIMS and all(type(n) is int for n in value)


def _is_no_hooks(value):
    """Hooks are code: what is saved is an empty dict."""
    return value is None or (type(value) in (OrderedDict, dict) and not value)


def _is_metadata(value):
    return value is None or (
        type(value) is dict and len(value) <= 16 and all(type(k) is str and type(v) is bool for k, v in value.items())
    )


def _is_name(value):
    return type(value) is str and len(value) <= 64


def _is_state(value):
    parts = value if type(value) is tuple and len(value) == 2 else (value,)
    return all(part is None or type(part) in (dict, OrderedDict) for part in parts)


def _is(*kinds):
    return lambda value: type(value) in kinds


_is_int, _is_bool, _is_text, _is_list = _is(int), _is(bool), _is(str), _is(list)
_is_dtype, _is_layout = _is(tessera.dtype), _is(tessera.layout)
_is_storage, _is_any_storage = _is(TypedStorage), _is(TypedStorage, UntypedStorage)


def _is_device(value):
    return type(value) is tessera.device or _is_name(value)


class Call:
    """One entry of the table. `forms` are the accepted lists of arguments: how many must be there, and a predicate for
    each (those
    beyond the first number may be left out, from the end). `run(unpickler, args)` makes the object."""

    __slots__ = ("name", "forms", "run")

    def __init__(self, name, run, *forms):
        self.name, self.run, self.forms = name, run, forms

    def __call__(self, unpickler, args):
        for required, *predicates in self.forms:
            if required <= len(args) <= len(predicates) and all(fits(arg) for fits, arg in zip(predicates, args)):
                return self.run(unpickler, args)
        shown = ", ".join(type(arg).__name__ for arg in args[:10])
        raise UnpicklingError(
            f"{self.name} can't be called with ({shown}) by a checkpoint that is loaded with weights_only=True: "
            "no checkpoint that save() wrote does"
        )


# ---- states
# -----------------------------------------------------------------------------------------------------------------


def _of_class(cls, name):
    """What a class or its bases call `name`, as it stands there."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return _MISSING


def check_attributes(cls, names):
    """Raises UnpicklingError for names that would hide what the class gives its objects: a method, a property, anything
    of Tensor or
    OrderedDict. Defaults of other classes and slots may be set."""
    family = next(base for base in (tessera.Tensor, OrderedDict, object) if issubclass(cls, base))
    for name in names:
        if type(name) is not str:
            raise UnpicklingError(
                f"attributes have names, but the state of a {cls.__name__} has a {type(name).__name__}"
            )
        found = _of_class(cls, name)
        if found is _MISSING:
            allowed = not (name.startswith("__") and name.endswith("__"))
        else:
            allowed = (
                _of_class(family, name) is _MISSING and not callable(found) and not isinstance(found, _DESCRIPTORS)
            ) or (_wraps(cls) and name[0:1] != "_" and not hasattr(type(found), "__set__"))
        if not allowed:
            raise UnpicklingError(
                f"the attribute {name!r:.100} in the state of a {cls.__name__} would hide the one of its class"
            )


def _wraps(cls):
    """Whether objects of a class, which the program has allowed, are tensors that handle operators: then the members
    that they keep may have names of operators (`t`, `values`), whose methods they hide by their own wish."""
    return issubclass(cls, tessera.Tensor) and tessera._tensor._takes_operators(cls)


_DESCRIPTORS = (property, classmethod, staticmethod, types.GetSetDescriptorType)


def set_state(unpickler, target, state):
    """Sets the attributes of a state: a dict, a pair of dicts (attributes, slots), or None."""
    if not _is_state(state):
        raise UnpicklingError(
            f"the state of a {type(target).__name__} must be a dict of attributes, but got {type(state).__name__}"
        )
    for part in state if type(state) is tuple else (state,):
        if part:
            unpickler.budget.charge(len(part))
            check_attributes(type(target), part)
            for name, value in part.items():
                if getattr(type(target), "__dataclass_params__", None) is None:
                    setattr(target, name, value)
                else:  # which may be frozen
                    object.__setattr__(target, name, value)
    return target


def call_setstate(unpickler, target, state):
    """`__setstate__` of a class that the user allowed. Those of this package take the attributes as they are, so they
    are checked; what they compute and only write for PyTorch's sake (`_computed`), they leave out themselves.
    """
    cls = type(target)
    if (getattr(cls.__setstate__, "__module__", None) or "").partition(".")[0] in ("tessera", "torch") and type(
        state
    ) is dict:
        unpickler.budget.charge(len(state))
        check_attributes(cls, [name for name in state if name not in getattr(cls, "_computed", ())])
    cls.__setstate__(target, state)


def build_tensor(unpickler, target, state):
    """BUILD on a tensor: attributes, or what PyTorch 0.4 and before saved."""
    if type(state) is tuple and len(state) == 4:
        storage, offset, size, stride = state
        if not (
            _is_storage(storage)
            and storage.dtype is target.dtype
            and type(offset) is int
            and _is_sizes(size)
            and _is_sizes(stride)
            and not (target.is_neg() or target.is_conj())  # set_ would work out all of its numbers first
        ):
            raise UnpicklingError("malformed state of a tensor")
        target.set_(storage._untyped_storage, offset, tuple(size), tuple(stride))
    elif type(state) is tuple and len(state) in (3, 5):
        data, requires_grad = state[0], state[len(state) - 2]
        if not (_is_tensor(data) and type(requires_grad) is bool and _is_no_hooks(state[-1])):
            raise UnpicklingError("malformed state of a parameter")
        target.data, target.requires_grad = data, requires_grad
    else:
        set_state(unpickler, target, state)


# ---- what is called
# ---------------------------------------------------------------------------------------------------------


def _copies(function):
    """Of calls that copy their first argument."""

    def run(unpickler, args):
        if args:
            unpickler.budget.charge(len(args[0]))
        return function(*args)

    return run


def _ordered_dict(unpickler, args):
    pairs = args[0] if args else ()
    unpickler.budget.charge(len(pairs))
    if not all(type(pair) in (tuple, list) and len(pair) == 2 for pair in pairs):
        raise UnpicklingError("an OrderedDict is made of pairs")
    return OrderedDict(pairs)


def _encode(unpickler, args):
    text, encoding = args if len(args) == 2 else (args[0], "latin1")
    if encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise UnpicklingError(f"encoding {encoding!r:.100} is not allowed")
    unpickler.budget.charge(len(text))
    return text.encode(encoding)


def _bytearray(unpickler, args):
    if len(args) == 2:
        return bytearray(_encode(unpickler, args))
    return _copies(bytearray)(unpickler, args)


def _converted(function):
    """Of calls that make a tensor with a memory of its own: it counts as often as it is made."""

    def run(unpickler, args):
        unpickler.budget.charge(int(args[0].numel() if _is_tensor(args[0]) else args[0].size))
        return function(*args)

    return run


def _with_state(rebuild):
    def run(unpickler, args):
        return set_state(unpickler, rebuild(*args[:3]), args[3])

    return run


def _from_type(unpickler, args):
    function, cls, inner, state = args
    tensor = unpickler.call(function, inner)
    if not _is_tensor(tensor) or not (
        isinstance(cls, type) and issubclass(cls, tessera.Tensor) and unpickler.may_make(cls)
    ):
        raise UnpicklingError(
            f"expected a tensor and a type of tensors, but got {type(tensor).__name__} and {cls!r:.200}"
        )
    if type(tensor) is not cls:
        tensor = tensor.as_subclass(cls)
    if cls.__setstate__ is not tessera.Tensor.__setstate__ and state is not None:
        call_setstate(unpickler, tensor, state)
        return tensor
    return set_state(unpickler, tensor, state)


def _wrapper(rebuild):
    def run(unpickler, args):
        if args[0] not in unpickler.user_types:
            raise UnpicklingError(f"{args[0]!r:.200} is no class that add_safe_globals allowed")
        return rebuild(*args)

    return run


def _plain(function):
    return lambda unpickler, args: function(*args)


def _anything(value):
    return True


_GEOMETRY = (_is_int, _is_sizes, _is_sizes)
_FLAGS = (_is_bool, _is_no_hooks)
_is_numpy = lambda value: type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"
_is_class = lambda value: isinstance(value, type)


def _quantizer(value):
    if type(value) is not tuple:
        return False
    if len(value) == 3:
        return type(value[1]) is float and type(value[2]) is int
    return len(value) == 4 and _is_tensor(value[1]) and _is_tensor(value[2]) and type(value[3]) is int


def _sparse_members(value):
    return (
        type(value) is tuple
        and 3 <= len(value) <= 4
        and all(_is_tensor(v) or _is_sizes(v) or type(v) is bool for v in value)
    )


# Name in torch._utils -> (what makes run() of the function, forms).
_REBUILDERS = {
    "_rebuild_tensor": (_plain, (4, _is_storage, *_GEOMETRY)),
    "_rebuild_tensor_v2": (_plain, (6, _is_storage, *_GEOMETRY, *_FLAGS, _is_metadata)),
    "_rebuild_tensor_v3": (_plain, (7, _is_any_storage, *_GEOMETRY, *_FLAGS, _is_dtype, _is_metadata)),
    "_rebuild_parameter": (_plain, (3, _is_tensor, *_FLAGS)),
    "_rebuild_parameter_with_state": (None, (4, _is_tensor, *_FLAGS, _is_state)),
    "_rebuild_qtensor": (_plain, (7, _is_storage, *_GEOMETRY, _quantizer, *_FLAGS)),
    "_rebuild_sparse_tensor": (_plain, (2, _is_layout, _sparse_members)),
    "_rebuild_meta_tensor_no_storage": (_plain, (4, _is_dtype, _is_sizes, _is_sizes, _is_bool)),
    "_rebuild_nested_tensor": (_plain, (4, _is_tensor, _is_tensor, _is_tensor, _is_tensor)),
    "_rebuild_wrapper_subclass": (
        _wrapper,
        (8, _is_class, _is_dtype, _is_sizes, _is_sizes, _is_int, _is_layout, _is_device, _is_bool),
    ),
    "_rebuild_device_tensor_from_numpy": (_converted, (4, _is_numpy, _is_dtype, _is_device, _is_bool)),
    "_rebuild_device_tensor_from_cpu_tensor": (_converted, (4, _is_tensor, _is_dtype, _is_device, _is_bool)),
}


def rebuilder(name):
    """(function of tessera._utils, its Call), or None for other names."""
    if name not in _REBUILDERS:
        return None
    from tessera import _utils

    function = getattr(_utils, name)
    wrap, form = _REBUILDERS[name]
    run = _with_state(_utils._rebuild_parameter) if wrap is None else wrap(function)
    return function, Call(name, run, form)


def parameter(cls):
    """The Call of Parameter and Buffer, as REDUCE and as NEWOBJ."""
    return Call(
        cls.__name__, _plain(cls), (0, _is_tensor, _is_bool) if cls.__name__ == "Parameter" else (0, _is_tensor)
    )


def from_type():
    """(function, Call) of `_rebuild_from_type_v2`."""
    return tessera._tensor._rebuild_from_type_v2, Call(
        "_rebuild_from_type_v2", _from_type, (4, _anything, _is_class, _is(tuple), _anything)
    )


def jagged():
    """(function, Call) of what makes jagged tensors."""
    from tessera.nested._internal.nested_tensor import _rebuild_njt

    return _rebuild_njt, Call("_rebuild_njt", _plain(_rebuild_njt), (1, _is(dict)))


def jagged_class():
    """(class, Call) of jagged tensors: named by their pickles, never called."""
    from tessera.nested._internal.nested_tensor import NestedTensor

    return NestedTensor, Call("NestedTensor", _plain(NestedTensor))


def range_of_sizes():
    """(class, Call) of bounds of sizes, which jagged tensors carry."""
    from tessera._dynamo.decorators import _DimRange

    BUILT.add(_DimRange)
    return _DimRange, Call("_DimRange", _plain(_DimRange), (0,))


def layout_of():
    _get_layout = tessera.serialization._get_layout
    return _get_layout, Call("_get_layout", _plain(_get_layout), (1, _is_name))


# Classes whose __setstate__ checks what it gets.
BUILT: set = set()

# Of classes and functions that need no other module.
CALLS: dict = {
    OrderedDict: Call("OrderedDict", _ordered_dict, (0, _is(list, tuple))),
    Counter: Call("Counter", _copies(Counter), (0, _is(dict))),
    set: Call("set", _copies(set), (0, _is(list, tuple))),
    bytearray: Call("bytearray", _bytearray, (0, _is(bytes)), (2, _is_text, _is_name)),
    complex: Call("complex", _plain(complex), (2, _is(float), _is(float))),
    tessera.Size: Call("Size", _copies(tessera.Size), (1, _is_sizes)),
    tessera.device: Call("device", _plain(tessera.device), (1, _is_name, _is_int)),
}


def encode(text, encoding="latin1"):
    """Stands for `_codecs.encode`."""
    return text.encode(encoding)


CALLS[encode] = Call("encode", _encode, (1, _is_text, _is_name))
