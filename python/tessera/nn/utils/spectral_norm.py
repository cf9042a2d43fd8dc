"""Spectral normalisation (Miyato et al. 2018) by a forward pre-hook."""

import tessera
from tessera.nn.parameter import Parameter

from ._computed import Computed, as_matrix, check_free, power_steps, rows_dim, take_off, unit_vectors

__all__ = ["SpectralNorm", "spectral_norm", "remove_spectral_norm"]


def _positive(count):
    if count <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={count}")
    return count


class SpectralNorm(Computed):
    """The hook: computes <name> = <name>_orig / sigma; in training u and v take n_power_iterations steps of the power
    method.
    """

    _version = 1
    _pieces = ("_orig", "_u", "_v")

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        self.n_power_iterations = _positive(n_power_iterations)
        self.name, self.dim, self.eps = name, dim, eps

    def reshape_weight_to_matrix(self, weight):
        """`dim` first, the others as one."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        """The normalised weight; u and v are updated in place."""
        weight, u, v = (self._piece(module, piece) for piece in self._pieces)
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            power_steps(self.n_power_iterations, self.eps, (v, matrix.t(), u), (u, matrix, v))
            # later steps must not change what backward needs
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def _compute(self, module):
        return self.compute_weight(module, do_power_iteration=module.training)

    @staticmethod
    @tessera.no_grad()
    def apply(module, name, n_power_iterations, dim, eps):
        """Puts the hook on a module. RuntimeError if there is one for this name."""
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters.get(name)
        check_free(module, SpectralNorm, name, "spectral_norm")
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        hook._take_place(module, weight, *unit_vectors(weight, hook.reshape_weight_to_matrix(weight), eps))
        setattr(module, name, weight.data)  # a plain attribute: a parameter could not be assigned a computed tensor
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook

    def remove(self, module):
        """Makes the weight a parameter again."""
        with tessera.no_grad():
            self._give_back(module, Parameter(self.compute_weight(module, do_power_iteration=False)))


class _StateHook:
    """Something that happens to state dicts, for the hook `fn`."""

    def __init__(self, fn):
        self.fn = fn


class SpectralNormLoadStateDictPreHook(_StateHook):
    """Loads checkpoints of version None, which held the normalised weight instead of v."""

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        fn = self.fn
        weight, orig, u, v = (prefix + fn.name + piece for piece in ("", *fn._pieces))
        old = local_metadata.get("spectral_norm", {}).get(fn.name + ".version") is None
        if not old or v in state_dict or not {weight, orig, u} <= state_dict.keys():
            return
        # u = A v / sigma with the matrix A of the original, whose least squares give v
        with tessera.no_grad():
            matrix = fn.reshape_weight_to_matrix(state_dict[orig])
            sigma = (state_dict[orig] / state_dict.pop(weight)).mean()
            gram = matrix.t().mm(matrix)
            state_dict[v] = (
                tessera.linalg.multi_dot([gram.pinverse(), matrix.t(), state_dict[u].unsqueeze(1)])
                .squeeze(1)
                .mul(sigma)
            )


class SpectralNormStateDictHook(_StateHook):
    """Writes the version of the format."""

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions, key = local_metadata.setdefault("spectral_norm", {}), self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value. dim: the dim of the outputs (1 for transposed convolutions, else
    0). Returns the module.
    """
    SpectralNorm.apply(module, name, n_power_iterations, rows_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Takes spectral_norm back. ValueError if there is none."""
    hook = take_off(module, SpectralNorm, name, "spectral_norm of '{name}' not found in {module}")
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, entry in list(table.items()):
            inner = getattr(entry, "hook", entry)
            if isinstance(inner, _StateHook) and inner.fn.name == hook.name:
                del table[key]
    return module
