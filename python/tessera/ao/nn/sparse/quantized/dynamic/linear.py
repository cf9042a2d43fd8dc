"""Linear with a sparse weight that rounds its input at each call."""

from ....quantized.dynamic.modules import linear
from ..linear import Blocks

__all__ = ["Linear"]


class Linear(Blocks, linear.Linear):
    """A dynamic Linear with weights that are zero in blocks (row_block_size, col_block_size)."""

    def _get_name(self):
        return "SparseQuantizedDynamicLinear"
