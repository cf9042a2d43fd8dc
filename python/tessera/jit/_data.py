"""Lists and dicts that programs and Python share: what script() makes of a list or a dict. A program that is given one
works on it, not on a copy.
"""

import functools

import tessera
from tessera._C import _jit

from ._errors import Error
from ._frontend import class_type
from ._types import type_of_value

# What is done to them is done by programs; {T}, {K}, {V} are the types of elements, keys and values.
_LIST = """
def append(l: List[{T}], x: {T}):
    l.append(x)
def insert(l: List[{T}], i: int, x: {T}):
    l.insert(i, x)
def pop(l: List[{T}], i: int) -> {T}:
    return l.pop(i)
def get(l: List[{T}], i: int) -> {T}:
    return l[i]
def put(l: List[{T}], i: int, x: {T}):
    l[i] = x
def delete(l: List[{T}], i: int):
    del l[i]
def extend(l: List[{T}], other: List[{T}]):
    l.extend(other)
def clear(l: List[{T}]):
    l.clear()
def size(l: List[{T}]) -> int:
    return len(l)
"""
_DICT = """
def get(d: Dict[{K}, {V}], k: {K}) -> {V}:
    return d[k]
def put(d: Dict[{K}, {V}], k: {K}, v: {V}):
    d[k] = v
def delete(d: Dict[{K}, {V}], k: {K}):
    del d[k]
def contains(d: Dict[{K}, {V}], k: {K}) -> bool:
    return k in d
def size(d: Dict[{K}, {V}]) -> int:
    return len(d)
"""


@functools.cache
def _steps(text, **types):
    from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401  the texts name them

    Tensor, Device = tessera.Tensor, tessera.device  # noqa: F841
    unit = tessera.jit.CompilationUnit()
    for piece in text.strip().format(**types).split("\ndef "):
        unit.define((piece if piece.startswith("def ") else f"def {piece}") + "\n")
    return unit


class _Shared:
    def __init__(self, data, kind):
        self._kind, self._data = kind, _jit.new_data(kind, data)

    def _do(self, step, *args):
        try:
            return getattr(self._unit(), step)(self, *args)
        except IndexError:
            raise
        except RuntimeError as error:
            text = str(error)
            if "out of range" in text:
                raise IndexError("list index out of range") from None
            if "for argument" in text or "Expected a value of type" in text:
                raise TypeError(text) from None
            raise

    def _value(self):
        return _jit.data_of(self._data)

    def __len__(self):
        return self._do("size")

    def __iter__(self):
        return iter(self._value())

    def __eq__(self, other):
        return self._value() == (other._value() if isinstance(other, _Shared) else other)

    __hash__ = None

    def __repr__(self):
        return repr(self._value())


class ScriptList(_Shared):
    """A list of a program: its elements are of one type.

    Raises: TypeError for an element of another type, IndexError for an index without an element.
    """

    def _unit(self):
        return _steps(_LIST, T=self._kind.getElementType().annotation_str)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ScriptList(self._value()[index], self._kind)
        return self._do("get", index)

    def __setitem__(self, index, value):
        if not isinstance(index, slice):
            return self._do("put", index, value)
        items = self._value()
        items[index] = list(value)
        checked = ScriptList(items, self._kind)
        self.clear()
        self.extend(checked)

    def __delitem__(self, index):
        self._do("delete", index)

    def __contains__(self, value):
        return value in self._value()

    def append(self, x):
        """Adds an element at the end."""
        self._do("append", x)

    def insert(self, i, x):
        """Adds an element before another."""
        self._do("insert", i, x)

    def extend(self, other):
        """Adds the elements of an iterable at the end."""
        self._do("extend", other if isinstance(other, ScriptList) else list(other))

    def pop(self, i=-1):
        """Takes an element out, and returns it."""
        return self._do("pop", i)

    def remove(self, x):
        """Takes the first equal element out. Raises: ValueError where there is none."""
        del self[self._value().index(x)]

    def count(self, x):
        """How many elements are equal to x."""
        return self._value().count(x)

    def clear(self):
        """Takes all elements out."""
        self._do("clear")


class ScriptDict(_Shared):
    """A dict of a program: its keys are of one type, and its values.

    Raises: TypeError for a key or value of another type, KeyError for a key that is not there.
    """

    def _unit(self):
        return _steps(_DICT, K=self._kind.getKeyType().annotation_str, V=self._kind.getValueType().annotation_str)

    def __contains__(self, key):
        return self._do("contains", key)

    def __getitem__(self, key):
        if key not in self:
            raise KeyError(key)
        return self._do("get", key)

    def __setitem__(self, key, value):
        self._do("put", key, value)

    def __delitem__(self, key):
        if key not in self:
            raise KeyError(key)
        self._do("delete", key)

    def keys(self):
        """The keys, in the order in which they came."""
        return self._value().keys()

    def values(self):
        """The values, in the order of the keys."""
        return self._value().values()

    def items(self):
        """Pairs of a key and its value."""
        return self._value().items()


def shared(data):
    """The ScriptList or ScriptDict with the elements of a list or dict.

    Raises: Error where they are of several types.
    """
    kind = type_of_value(data, class_type)
    if kind is None or kind.kind() not in ("ListType", "DictType"):
        raise Error(f"script: the elements of a {type(data).__name__} must be of one type that programs have: {data!r}")
    return (ScriptList if kind.kind() == "ListType" else ScriptDict)(data, kind)
