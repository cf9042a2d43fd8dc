"""The table of translations with all of its rows."""

from tessera.onnx._operators import indexing, layers, pointwise, reductions, sequences, shapes  # noqa: F401
from tessera.onnx._table import TABLE

__all__ = ["TABLE"]
