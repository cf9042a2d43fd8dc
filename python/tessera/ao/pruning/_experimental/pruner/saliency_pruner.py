"""SaliencyPruner: outputs with small weights go."""

from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["SaliencyPruner"]


def cut_least(mask, saliency, level):
    """Sets the mask to False at the int(level * n) least entries."""
    count = int(level * saliency.numel())
    if not 0 <= count <= saliency.numel():
        raise RuntimeError(f"selected index k out of range: sparsity_level={level} is not between 0 and 1")
    mask.data[saliency.topk(count, largest=False).indices] = False


class SaliencyPruner(BaseStructuredSparsifier):
    """Prunes the outputs whose weights have the least sum of magnitudes, a part `sparsity_level` of each layer's."""

    def update_mask(self, module, tensor_name, **kwargs):
        """Renews the mask; "sparsity_level" comes from the config or the defaults."""
        weight = getattr(module, tensor_name)
        if weight.dim() < 2:
            raise ValueError(f"{tensor_name} needs 2 dimensions or more to have outputs, not {weight.dim()}")
        mask = module.parametrizations[tensor_name][0].mask
        cut_least(mask, weight.abs().flatten(1).sum(1), kwargs["sparsity_level"])
