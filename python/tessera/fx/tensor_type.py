"""Types of tensors by shape, for annotations: TensorType((2, Dyn))."""

from tessera.fx._compatibility import compatibility

__all__ = ["TensorType", "Dyn", "is_consistent", "is_more_precise", "compatibility"]


class TensorType:
    """A tensor of a shape whose sizes are ints or Dyn.

    Args:
        dim: sequence of sizes.
    """

    def __init__(self, dim):
        self.__origin__, self.__args__ = TensorType, tuple(dim)

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, TensorType) and self.__args__ == other.__args__

    def __hash__(self):
        return hash(self.__args__)

    @staticmethod
    def __class_getitem__(*args):
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _Dynamic:
    """Any size, or any shape."""

    def __eq__(self, other):
        return isinstance(other, _Dynamic)

    def __hash__(self):
        return hash(_Dynamic)

    def __repr__(self):
        return "Dyn"

    __str__ = __repr__


Dyn = _Dynamic()


def _compare(t1, t2, dims):
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        a, b = t1.__args__, t2.__args__
        return len(a) == len(b) and all(map(dims, a, b))
    return False


def is_consistent(t1, t2):
    """Whether one value may have both types: Dyn goes with everything, shapes size by size."""
    return t1 == t2 or t1 == Dyn or t2 == Dyn or _compare(t1, t2, is_consistent)


def is_more_precise(t1, t2):
    """Whether t1 says all that t2 says: Dyn says nothing, shapes size by size."""
    return t1 == t2 or t2 == Dyn or _compare(t1, t2, is_more_precise)
