"""LSTMSaliencyPruner: each gate loses the outputs with small weights."""

from .base_structured_sparsifier import BaseStructuredSparsifier
from .saliency_pruner import cut_least

__all__ = ["LSTMSaliencyPruner"]


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """Prunes a part `sparsity_level` of the rows of each of the four gates, those of the least sum of magnitudes.

    The config names weights "lstm.weight_ih_l0" and "lstm.weight_hh_l0", both, so that their sizes agree.
    """

    def update_mask(self, module, tensor_name, **kwargs):
        """Renews the mask; ValueError if the rows are not those of four gates."""
        weight = getattr(module, tensor_name)
        if weight.dim() != 2 or weight.shape[0] % 4:
            raise ValueError(
                f"{tensor_name} needs a matrix with the rows of four gates, but has the shape {tuple(weight.shape)}"
            )
        mask = module.parametrizations[tensor_name][0].mask
        for part, rows in zip(mask.data.chunk(4), weight.abs().sum(1).chunk(4)):
            cut_least(part, rows, kwargs["sparsity_level"])
