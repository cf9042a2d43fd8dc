"""Flatten and Unflatten."""

from ._declared import layer
from .module import Module

__all__ = ["Flatten", "Unflatten"]


@layer("start_dim=1, end_dim=-1", "input.flatten(start_dim, end_dim)", "start_dim= end_dim=")
class Flatten(Module):
    """Joins the dims from start_dim to end_dim into one."""


@layer(
    "dim, unflattened_size", "input.unflatten(dim, unflattened_size)", "dim= unflattened_size=", then="self._check()"
)
class Unflatten(Module):
    """Splits one dim into `unflattened_size` (a tuple or list of ints; of (name, size) pairs if dim is a name)."""

    NamedShape = tuple[tuple[str, int]]
    # kind of the dim -> kinds of the sizes and of each size, and how messages name them
    _KINDS = {int: ((tuple, list), int, "tuple of ints"), str: (tuple, tuple, "tuple of tuples")}

    def _check(self):
        kind = next((kind for kind in self._KINDS if isinstance(self.dim, kind)), None)
        if kind is None:
            raise TypeError("invalid argument type for dim parameter")
        self._check_sizes(self.unflattened_size, *self._KINDS[kind])

    @staticmethod
    def _check_sizes(sizes, whole, part, text):
        if not isinstance(sizes, whole):
            article = "a " if whole is tuple else ""
            raise TypeError(f"unflattened_size must be {article}{text}, but found type {type(sizes).__name__}")
        for i, size in enumerate(sizes):
            if not isinstance(size, part):
                raise TypeError(
                    f"unflattened_size must be {text}, but found element of type {type(size).__name__} at pos {i}"
                )
