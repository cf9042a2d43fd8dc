"""What the compiler and the interpreter ask of Python (tessera._C._jit calls these by name)."""

import types

import tessera
from tessera._root import held_classes

from ._aliases import AliasDb, dump_aliases  # noqa: F401
from ._errors import Error, UnsupportedNodeError  # noqa: F401
from ._frontend import PYTHON_CLASSES, attribute, class_type  # noqa: F401
from ._graphs import InsertPoint, Use, attribute_value  # noqa: F401
from ._modules import ScriptModule, wrapped  # noqa: F401
from ._objects import ScriptObject
from ._types import UnknownType, simple
from ._types import type_of_value as _type_of_value


def describe(obj):
    """How messages name something that programs cannot use."""
    return obj.__name__ if isinstance(obj, (types.ModuleType, type)) else type(obj).__name__


def object_of(obj, kind):
    """The instance of //jit that a Python object is or becomes for a class, or None."""
    if isinstance(obj, (ScriptModule, ScriptObject)):
        return obj._c
    held = held_classes.instance_of(obj)
    if held is not None:
        return held
    cls = kind.class_
    if kind.kind() == "InterfaceType":  # what has its methods
        own = class_type(type(obj))
        cls = own.class_ if own is not None else None
    elif class_type(type(obj)) != kind:
        return None
    if cls is None or cls.is_module:
        return None
    made = cls.new()
    for name, *_ in cls.attributes:
        made.set(name, getattr(obj, name))
    return made


def type_of_value(value):
    """The type of a value that is given where Any is asked for."""
    if isinstance(value, (ScriptModule, ScriptObject)):
        return value._c.class_.type
    try:
        return _type_of_value(value, class_type) or simple("Any")
    except UnknownType:  # a named tuple with annotations that say nothing to programs
        return simple("Tuple", *map(type_of_value, value)) if isinstance(value, tuple) else simple("Any")


def wait_for(future):
    """The result of a Future."""
    return future.wait()


def done_future(value):
    """A Future that has its result."""
    future = tessera.futures.Future()
    future.set_result(value)
    return future


def failed_future(message):
    """A Future whose wait() raises what a task raised."""
    future = tessera.futures.Future()
    future.set_exception(RuntimeError(message))
    return future


def named_tuple_of(kind, items):
    """The named tuple of a type, of the program's own class where there is one."""
    cls = PYTHON_CLASSES.get(kind.label)
    if cls is None:
        import collections

        cls = PYTHON_CLASSES[kind.label] = collections.namedtuple(kind.label.rpartition(".")[2], kind.fields)
    return cls(*items)


def enum_item_of(kind, name):
    """The member of an enum."""
    cls = PYTHON_CLASSES.get(kind.label)
    if cls is None:
        import enum

        cls = PYTHON_CLASSES[kind.label] = enum.Enum(kind.label.rpartition(".")[2], kind.class_.constants)
    return cls[name]


_TRACE_WARNINGS = {
    "value": "Converting a tensor to {} might cause the trace to be incorrect. We can't record the data flow of "
    "Python values, so this value will be treated as a constant in the future. This means that the trace might not "
    "generalize to other inputs!",
    "length": "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be "
    "tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give incorrect results.",
    "iteration": "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape "
    "won't change the number of iterations executed (and might lead to errors or silently give incorrect results).",
    "constant": "{} results are registered as constants in the trace. You can safely ignore this warning if you use "
    "this function to create tensors out of constant variables that would be the same every time you call this "
    "function. In any other case, this might cause the trace to be incorrect.",
}


def trace_warning(kind, what="", level=2):
    """A traced program does what its trace repeats with the numbers of the example."""
    import warnings

    from ._marks import TracerWarning

    warnings.warn(_TRACE_WARNINGS[kind].format(what), TracerWarning, stacklevel=level)
