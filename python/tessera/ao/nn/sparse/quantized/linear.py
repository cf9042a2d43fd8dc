"""Linear on integers whose weight is mostly zeros, in blocks."""

import tessera

from ...quantized.modules import linear

__all__ = ["Linear"]


class Blocks:
    """A mixin: the block of weights (rows, columns) that are zero together."""

    def __init__(self, in_features, out_features, row_block_size, col_block_size, bias=True, dtype=tessera.qint8):
        if dtype != tessera.qint8:
            raise NotImplementedError(f"Only QINT8 is supported for Sparse Quantized Linear, but got {dtype}")
        super().__init__(in_features, out_features, bias, dtype)
        self.row_block_size, self.col_block_size = row_block_size, col_block_size

    def extra_repr(self):
        return f"{super().extra_repr()}, block_size=({self.row_block_size}, {self.col_block_size})"

    @classmethod
    def _extra(cls, mod):
        block = getattr(mod, "sparse_params", {}).get("sparse_block_shape", (1, 4))
        return {"row_block_size": block[0], "col_block_size": block[1]}


class Linear(Blocks, linear.Linear):
    """A quantized Linear with weights that are zero in blocks (row_block_size, col_block_size)."""

    def _get_name(self):
        return "SparseQuantizedLinear"
