"""FPGMPruner: outputs that are close to all others go."""

import tessera

from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Prunes the outputs whose weights are nearest to the geometric median, with the least sum of distances to others.

    He et al., "Filter Pruning via Geometric Median" (2019).

    Args:
        sparsity_level: the part of a layer's outputs.
        dist: 1 or 2 (also None), which norm; or a function of a matrix (outputs, weights) to the square matrix of
            distances between its rows.

    Raises: NotImplementedError for another `dist`.
    """

    def __init__(self, sparsity_level=0.5, dist=None):
        if callable(dist):
            self.dist_fn = dist
        elif dist in (None, 1, 2):
            self.dist_fn = lambda x: tessera.cdist(x, x, p=dist or 2)
        else:
            raise NotImplementedError(f"dist={dist!r} is not yet implemented: give 1, 2 or a function")
        super().__init__({"sparsity_level": sparsity_level})

    def update_mask(self, module, tensor_name, sparsity_level, **kwargs):
        """Renews the mask."""
        weight = getattr(module, tensor_name)
        mask = module.parametrizations[tensor_name][0].mask
        if sparsity_level <= 0:
            mask.data = tessera.ones_like(mask)
        elif sparsity_level >= 1:
            mask.data = tessera.zeros_like(mask)
        else:
            near = self.dist_fn(weight.flatten(1)).sum(1)
            mask.data[near.topk(round(sparsity_level * len(near)), largest=False).indices] = False
