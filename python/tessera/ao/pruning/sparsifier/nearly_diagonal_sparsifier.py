"""NearlyDiagonalSparsifier: what is far from the diagonal becomes zero."""

import tessera

from .base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps a band around the diagonal of matrices.

    Args:
        nearliness: how many diagonals stay, an odd number; 1 is the main one alone, 0 and less none.

    Raises: ValueError at `step` if the number is even or too large for the tensor, or if that is no matrix.
    """

    def __init__(self, nearliness=1):
        super().__init__({"nearliness": nearliness})

    def update_mask(self, module, tensor_name, nearliness, **kwargs):
        """Sets the mask to the band."""
        mask = module.parametrizations[tensor_name][0].mask
        height, width = mask.shape
        new = tessera.zeros_like(mask)
        if nearliness > 0:
            if nearliness % 2 == 0:
                raise ValueError(f"nearliness can only be an odd number, not {nearliness}")
            reach = nearliness // 2
            if reach >= min(height, width):
                raise ValueError(
                    f"nearliness cannot be larger than the dimensions of tensor: {nearliness} for {height} x {width}"
                )
            new = tessera.ones_like(mask).tril(reach).triu(-reach)
        mask.data = new
