"""Annotations and values to types of TorchScript."""

import collections
import enum
import inspect
import typing

import tessera
from tessera._root import held_classes
from tessera._C import _jit
from tessera._root.quantized import QuantizedTensor

from ._objects import ScriptClass, ScriptObject

_SIMPLE = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    type(None): "None",
    None: "None",
    typing.Any: "Any",
    object: "PyObject",
}
_NESTED = {list: "List", dict: "Dict", tuple: "Tuple", collections.OrderedDict: "Dict"}


class UnknownType(RuntimeError):
    """There is no type for an annotation or a value."""


def simple(name, *elements):
    """A type by its name and the types in it."""
    return _jit.make_type(name, elements)


def _names():
    """Classes of the package that are types of programs."""
    return {
        tessera.device: "Device",
        tessera.dtype: "int",
        tessera.layout: "int",
        tessera.memory_format: "int",
        tessera.Generator: "Generator",
        tessera.futures.Future: "Future",
        tessera.Stream: "Stream",
    }


def is_named_tuple(kind):
    """Whether a class is a named tuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def type_of(annotation, names=None, known_class=None):
    """The type that an annotation says.

    Args:
        names: function from a name to what classify() says, for annotations that are texts.
        known_class: function from a class to its type, or None where it is none that programs can use.
    Errors: UnknownType.
    """
    made = _type_of(annotation, names, known_class)
    if made is None:
        raise UnknownType(f"Unknown type annotation: '{annotation}'")
    return made


def _type_of(annotation, names, known_class):
    if isinstance(annotation, _jit.Type):
        return annotation
    if isinstance(annotation, ScriptClass):
        return annotation._type()
    if isinstance(annotation, str):
        return _jit.parse_type(annotation, names or (lambda name: None))
    if annotation in (typing.List, typing.Dict, typing.Tuple, typing.Optional, list, dict, tuple):
        return None
    try:
        if annotation in _SIMPLE:
            return simple(_SIMPLE[annotation])
    except TypeError:  # not hashable
        return None
    if isinstance(annotation, type) and (
        issubclass(annotation, tessera.Tensor) or type(annotation).__name__ == "tensortype"
    ):  # LongTensor and its like say no more
        return simple("Tensor")
    named = _names().get(annotation)
    if named and named != "Future":
        return simple(named)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Final:
        return _type_of(inner[0], names, known_class)
    inside = lambda: [type_of(a, names, known_class) for a in inner]
    if origin is typing.Union or type(annotation).__name__ == "UnionType":
        return simple("Union", *inside())
    if origin is tuple and inner == ((),):
        return simple("Tuple")
    if origin in _NESTED:
        if Ellipsis in inner:
            return None
        return simple(_NESTED[origin], *inside())
    if origin is tessera.futures.Future:
        return simple("Future", *inside())
    return known_class(annotation) if known_class and inspect.isclass(annotation) else None


def type_of_value(value, known_class=None):
    """The type that a value has by itself; that of `[]` is List[Tensor]. None where there is none."""
    if isinstance(value, tessera.Tensor):
        if type(value) is QuantizedTensor:
            tessera.ao.nn._quantized_scripts.start()  # operators that archives need for it
        return simple("Tensor")
    if isinstance(value, ScriptObject):
        return value._type()
    registered = held_classes.class_of(value)
    if registered is not None:
        return registered.type
    for kind in (bool, int, float, complex, str, type(None)):
        if isinstance(value, kind) and not isinstance(value, enum.Enum):
            return simple(_SIMPLE[kind])
    for kind, name in _names().items():
        if isinstance(value, kind) and name != "Future":
            return simple(name)
    inside = lambda values: [type_of_value(v, known_class) for v in values]
    if is_named_tuple(type(value)):
        return known_class(type(value)) if known_class else None
    if isinstance(value, tuple):
        elements = inside(value)
        return None if None in elements else simple("Tuple", *elements)
    if isinstance(value, (list, dict)):
        parts = [value] if isinstance(value, list) else [value.keys(), value.values()]
        found = []
        for part in parts:
            one = _common(inside(part))
            if one is None:
                return None
            found.append(one)
        if not value:
            found = [simple("Tensor")] if isinstance(value, list) else [simple("str"), simple("Tensor")]
        return simple("List" if isinstance(value, list) else "Dict", *found)
    if isinstance(value, tessera.futures.Future):
        inner = type_of_value(value.value(), known_class) if value.done() else None
        return inner and simple("Future", inner)
    return known_class(type(value)) if known_class else None


def _common(kinds):
    """One type for all elements, or None."""
    result = simple("Tensor") if not kinds else kinds[0]
    for kind in kinds[1:]:
        if kind is None or result is None:
            return None
        if kind.isSubtypeOf(result):
            continue
        if result.isSubtypeOf(kind):
            result = kind
        elif "NoneType" in (kind.kind(), result.kind()):
            result = simple("Optional", kind if result.kind() == "NoneType" else result)
        elif kind.kind() == result.kind() == "TupleType" and len(kind.elements()) == len(result.elements()):
            parts = [_common(pair) for pair in zip(result.elements(), kind.elements())]
            result = None if None in parts else simple("Tuple", *parts)
        else:
            return None
    return result
