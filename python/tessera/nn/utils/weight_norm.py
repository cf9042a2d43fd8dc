"""Weight normalisation (Salimans and Kingma 2016) by a forward pre-hook. Deprecated: use
parametrizations.weight_norm.
"""

import warnings

from tessera.nn.parameter import Parameter

from ._computed import Computed, check_free, norm_except_dim, scaled, take_off

__all__ = ["WeightNorm", "weight_norm", "remove_weight_norm"]


class WeightNorm(Computed):
    """The hook: computes <name> from <name>_g and <name>_v."""

    _pieces = ("_g", "_v")

    def __init__(self, name, dim):
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module):
        """The weight."""
        return scaled(self._piece(module, "_v"), self._piece(module, "_g"), self.dim)

    _compute = compute_weight

    @staticmethod
    def apply(module, name, dim):
        """Puts the hook on a module. RuntimeError if there is one for this name."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        check_free(module, WeightNorm, name, "weight_norm")
        hook, weight = WeightNorm(name, dim), getattr(module, name).data
        hook._take_place(module, Parameter(norm_except_dim(weight, hook.dim)), Parameter(weight))
        hook(module, None)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module):
        """Makes the weight a parameter again."""
        self._give_back(module, Parameter(self.compute_weight(module).data))


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into its length <name>_g (for each index of `dim`; None: one for all) and its direction <name>_v.
    Returns the module.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Takes weight_norm back. ValueError if there is none."""
    take_off(module, WeightNorm, name, "weight_norm of '{name}' not found in {module}")
    return module
