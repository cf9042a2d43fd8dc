"""The mask of outputs as a parametrization, and the bias behind it."""

from tessera import nn

from ...sparsifier.utils import module_contains_param

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(nn.Module):
    """A parametrization: zeros in the slices along dimension 0 where the 1-dimensional `mask` is False.

    No state dict holds the mask.
    """

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape[0] != x.shape[0]:
            raise AssertionError(f"mask shape[0] ({self.mask.shape[0]}) must match x shape[0] ({x.shape[0]})")
        return self.mask.reshape(-1, *[1] * (x.dim() - 1)) * x

    def state_dict(self, *args, **kwargs):
        """Always empty: the pruner saves masks."""
        return {}


class BiasHook:
    """A forward hook that adds the module's `_bias`, in which masked outputs become 0 first if `prune_bias`."""

    def __init__(self, parametrization, prune_bias):
        self.param = parametrization
        self.prune_bias = prune_bias

    def __call__(self, module, input, output):
        bias = getattr(module, "_bias", None)
        if bias is None:
            return output
        if self.prune_bias:
            bias.data[~self.param.mask.bool()] = 0
        return output + bias.reshape(-1, *[1] * (2 if isinstance(module, nn.Conv2d) else 0))
