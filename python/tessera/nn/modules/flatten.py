"""Flatten and Unflatten."""

from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins the dims from start_dim to end_dim into one."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dim into `unflattened_size` (a tuple or list of ints; of (name, size) pairs if dim is a name)."""

    __constants__ = ["dim", "unflattened_size"]

    # kind of the dim -> kinds of the sizes and of each size, and how messages name them
    _KINDS = {int: ((tuple, list), int, "tuple of ints"), str: (tuple, tuple, "tuple of tuples")}

    def __init__(self, dim, unflattened_size):
        super().__init__()
        kind = next((kind for kind in self._KINDS if isinstance(dim, kind)), None)
        if kind is None:
            raise TypeError("invalid argument type for dim parameter")
        self._check_sizes(unflattened_size, *self._KINDS[kind])
        self.dim, self.unflattened_size = dim, unflattened_size

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

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
