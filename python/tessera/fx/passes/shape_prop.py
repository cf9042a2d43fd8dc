"""Notes the shapes and dtypes of the values of a run in the nodes' meta."""

from typing import Any, NamedTuple

import tessera
from tessera.fx.interpreter import Interpreter
from tessera.fx.node import map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values; qparams: dict of a quantized one's parameters."""

    shape: tessera.Size
    dtype: tessera.dtype
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity=True):
    """The TensorMetadata of a tensor.

    Args:
        include_contiguity: say in which memory format it is contiguous.
    """
    found = None
    if result.layout not in (tessera.strided, tessera.jagged):  # no memory of its own
        return TensorMetadata(result.shape, result.dtype, result.requires_grad, (), None, False, {})
    if include_contiguity:
        formats = (tessera.contiguous_format, tessera.channels_last, tessera.channels_last_3d)
        found = next((f for f in formats if _is_contiguous(result, f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {})


def _is_contiguous(tensor, memory_format):
    wanted = {tessera.channels_last: 4, tessera.channels_last_3d: 5}.get(memory_format)
    return (wanted is None or tensor.dim() == wanted) and tensor.is_contiguous(memory_format=memory_format)


class ShapeProp(Interpreter):
    """Runs a GraphModule and keeps in each node's meta "tensor_meta" (TensorMetadata, in nested containers as the value
    has them) and "type" of its value.

    Args:
        gm: GraphModule.
        fake_mode: context manager to run in, with values that have shapes alone.
    """

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module = None
        self.real_module = self.module

    def run_node(self, n):
        """The node's value, and the notes on it."""
        import contextlib

        with contextlib.nullcontext() if self.fake_mode is None else self.fake_mode:
            result = super().run_node(n)
        found = False

        def look(value):
            nonlocal found
            if isinstance(value, tessera.Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, look)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the graph on values; returns its result."""
        fake = (lambda a: a) if self.fake_mode is None else self.fake_mode.from_tensor
        return self.run(*map_aggregate(args, lambda a: fake(a) if isinstance(a, tessera.Tensor) else a))
