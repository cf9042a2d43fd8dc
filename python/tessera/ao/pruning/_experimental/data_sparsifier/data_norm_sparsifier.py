"""DataNormSparsifier: blocks of small numbers become zeros."""

import tessera

from ...sparsifier._blocks import keep, zeros_per
from .base_data_sparsifier import BaseDataSparsifier

__all__ = ["DataNormSparsifier"]


class DataNormSparsifier(BaseDataSparsifier):
    """Zeros in the blocks of least norm, as WeightNormSparsifier has them, of data with one or two dimensions.

    Args:
        sparsity_level: how many of the blocks, from 0 to 1.
        sparse_block_shape: (rows, columns) of a block; one dimension is a row.
        zeros_per_block: how many elements of such a block, those of least norm; None: all.
        norm: "L1" or "L2".

    Raises: AssertionError for another norm; ValueError at `step` for other dimensions.
    """

    def __init__(self, data_list=None, sparsity_level=0.5, sparse_block_shape=(1, 4), zeros_per_block=None, norm="L1"):
        if norm not in ("L1", "L2"):
            raise AssertionError(f"norm is 'L1' or 'L2', not {norm!r}")
        self.norm = norm
        super().__init__(
            data_list,
            sparsity_level=sparsity_level,
            sparse_block_shape=sparse_block_shape,
            zeros_per_block=zeros_per(None, sparse_block_shape) if zeros_per_block is None else zeros_per_block,
        )

    def update_mask(self, name, data, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):
        """Renews the mask, int8, from the data before it."""
        if data.dim() not in (1, 2):
            raise ValueError(f"only supports 1-D and 2-D data at the moment, but {name!r} has {data.dim()} dimensions")
        zeros = zeros_per(zeros_per_block, sparse_block_shape)
        norms = tessera.atleast_2d(data.abs() if self.norm == "L1" else data * data)
        new = keep(norms, sparsity_level, sparse_block_shape, zeros, lambda n: n)
        self.get_mask(name).data = new.reshape(data.shape).to(tessera.int8)
