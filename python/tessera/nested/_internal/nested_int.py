"""The size of a ragged dimension: a symbol that stands for one list of lengths."""

import itertools

import tessera

_count = itertools.count(1)


class NestedInt(tessera.SymInt):
    """A factor times the symbol `j<number>`. Symbols are equal if they stand for the same offsets; every length is at
    least 0 and may be anything above, so other comparisons with numbers are those of a large one.
    """

    def __init__(self, number=None, coeff=1):
        self.number, self.coeff = next(_count) if number is None else number, coeff

    def __getattr__(self, name):
        if name == "node":  # of the base: an expression over sizes
            raise RuntimeError(f"invalid argument: the ragged size {self} takes part in comparisons and products alone")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    __torch_function__ = tessera._C._disabled_torch_function_impl  # nested tensors serve what takes one

    def __repr__(self):
        return f"j{self.number}" if self.coeff == 1 else f"{self.coeff}*j{self.number}"

    def __hash__(self):
        return hash((self.number, self.coeff))

    def __eq__(self, other):
        return isinstance(other, NestedInt) and (self.number, self.coeff) == (other.number, other.coeff)

    def __lt__(self, other):
        if isinstance(other, NestedInt):
            if self.number != other.number:
                raise ValueError(f"the ragged sizes {self} and {other} cannot be compared")
            return self.coeff < other.coeff
        return NotImplemented if not isinstance(other, int) else False

    def __ne__(self, other):
        return not self == other

    def __le__(self, other):
        less = self < other
        return less if less is NotImplemented else less or self == other

    def __gt__(self, other):
        return other < self if isinstance(other, NestedInt) else NotImplemented if not isinstance(other, int) else True

    def __ge__(self, other):
        more = self > other
        return more if more is NotImplemented else more or self == other

    def __mul__(self, other):
        if not isinstance(other, int):
            return NotImplemented
        return NestedInt(self.number, self.coeff * other)

    __rmul__ = __mul__

    def __bool__(self):
        return True

    def __copy__(self):
        return self

    def __reduce_ex__(self, protocol):
        return NestedInt, (self.number, self.coeff)

    def is_nested_int(self):
        """True."""
        return True

    def nested_int_coeff(self):
        """The factor."""
        return self.coeff
