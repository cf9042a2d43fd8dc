"""What graphs of programs ask of Python: uses of values, the place of insertion, attributes of nodes."""

import numbers

import tessera
from tessera import _C

__all__ = ["InsertPoint", "Use", "attribute_value"]


class Use:
    """A node that takes a value as an argument.

    Attributes:
        user: the node.
        offset: which of its arguments it is.
    """

    __slots__ = ("offset", "user")

    def __init__(self, user, offset):
        self.user, self.offset = user, offset

    def isAfter(self, other):
        """Whether this use happens after another: a later node, or a later argument of the same one."""
        return self.offset > other.offset if self.user == other.user else self.user.isAfter(other.user)

    def __eq__(self, other):
        return isinstance(other, Use) and self.user == other.user and self.offset == other.offset

    def __hash__(self):
        return hash((self.user, self.offset))

    def __repr__(self):
        return f"Use(user={self.user.kind()}, offset={self.offset})"


class InsertPoint:
    """Inside the block `graph` puts new nodes before `place`, a node, or at the end of it, a block."""

    def __init__(self, graph, place):
        self.graph, self.place = graph, place
        self.before = None

    def __enter__(self):
        self.before = self.graph.insertPoint()
        self.graph.setInsertPoint(self.place)

    def __exit__(self, exc_type, exc_value, traceback):
        self.graph.setInsertPoint(self.before)


# --- attributes ---


def _number_text(value):
    """As graphs write it: a point behind whole numbers that are no integers."""
    if isinstance(value, complex):
        return f"{_number_text(value.real)}+{_number_text(value.imag)}j"
    text = f"{value:g}"
    return text if isinstance(value, int) or any(c in text for c in ".en") else text + "."


def _tensor_text(value):
    return "{%g}" % value.item() if value.numel() == 1 and not value.is_complex() else "<Tensor>"


def _quoted(value):
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# By the letters of the methods of Node: what a value is, how it becomes one, how texts show it.
_SINGLE = {
    "i": (numbers.Integral, int, _number_text),
    "f": (numbers.Real, float, _number_text),
    "c": (numbers.Complex, complex, _number_text),
    "s": (str, str, _quoted),
    "t": (tessera.Tensor, lambda v: v, _tensor_text),
    "z": (tessera.Tensor, lambda v: v, _tensor_text),
    "g": (_C._jit.Graph, lambda v: v, lambda v: "<Graph>"),
    "ty": (_C._jit.Type, lambda v: v, str),
}
_OF_LISTS = {"ts": "<Tensors>", "zs": "<Tensors>", "gs": "<Graphs>"}


def _checked(letters, value):
    kind, convert, _ = _SINGLE[letters]
    if not isinstance(value, kind):
        raise TypeError(f"{letters}_(): expected {kind.__name__}, but got {value!r} of type {type(value).__name__}")
    return convert(value)


def attribute_value(letters, value):
    """(value, text) of what a node gets under a name by the method with these letters.

    Raises: TypeError for a value of another type.
    """
    if letters == "ival":
        return value, str(value)
    if letters in _SINGLE:
        made = _checked(letters, value)
        return made, _SINGLE[letters][2](made)
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise TypeError(f"{letters}_(): expected a list or tuple, but got {value!r} of type {type(value).__name__}")
    made = [_checked(letters[:-1], v) for v in value]
    if letters in _OF_LISTS:
        return made, f"[{_OF_LISTS[letters]}]"
    return made, f"[{', '.join(_SINGLE[letters[:-1]][2](v) for v in made)}]"
