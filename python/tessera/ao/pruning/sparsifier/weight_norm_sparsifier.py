"""WeightNormSparsifier: blocks of small weights become zeros."""

import tessera

from ._blocks import keep, zeros_per
from .base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]


def _squares(x):
    return x * x


class WeightNormSparsifier(BaseSparsifier):
    """Zeros in the blocks of least norm.

    Args:
        sparsity_level: how many of the blocks, from 0 to 1.
        sparse_block_shape: (rows, columns) of a block.
        zeros_per_block: how many elements of such a block, those of least norm; None: all. sparsity_level=1 with blocks
            (1, 4) and 2 zeros is 2:4 sparsity.
        norm: 1, 2 (also None), or a function of a tensor, by element; a block's is the mean.

    Each of the first three may stand in a config. Raises: NotImplementedError for other norms; ValueError at `step` for
        impossible numbers of zeros and for tensors without exactly 2 dimensions.
    """

    def __init__(self, sparsity_level=0.5, sparse_block_shape=(1, 4), zeros_per_block=None, norm=None):
        functions = {None: _squares, 1: tessera.abs, 2: _squares}
        if not callable(norm) and norm not in functions:
            raise NotImplementedError(f"norm={norm!r} is not yet implemented: give 1, 2 or a function")
        self.norm_fn = norm if callable(norm) else functions[norm]
        if zeros_per_block is None:
            zeros_per_block = zeros_per(None, sparse_block_shape)
        super().__init__(
            {
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": zeros_per_block,
            }
        )

    def update_mask(self, module, tensor_name, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):
        """Renews the mask from the norms of the tensor as it is now, behind the mask."""
        zeros = zeros_per(zeros_per_block, sparse_block_shape)
        mask = module.parametrizations[tensor_name][0].mask
        whole = zeros == zeros_per(None, sparse_block_shape)
        if sparsity_level <= 0 or zeros == 0:
            new = tessera.ones_like(mask)
        elif sparsity_level >= 1 and whole:
            new = tessera.zeros_like(mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name))
            new = keep(norms, sparsity_level, sparse_block_shape, zeros, lambda n: n - 1)
            new = new.to(mask.dtype) if whole else new
        mask.data = new
