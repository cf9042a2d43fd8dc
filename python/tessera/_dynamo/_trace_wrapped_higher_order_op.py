"""Indexing by tensors of one number."""

import tessera
from tessera.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """A mode in which `x[i]` with tensors `i` is an operator on them. Indexing asks 0-d tensors for their numbers else,
    which function transforms such as vmap can't give.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is tessera.Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if index and all(isinstance(i, tessera.Tensor) for i in index):
                return tessera.ops.aten.index.Tensor(args[0], list(index))
        return func(*args, **(kwargs or {}))
