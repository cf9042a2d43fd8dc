"""Tensors of a module that are computed from others.

What weight norm, spectral norm, pruning and parametrizations share.

The tensor's place is taken by pieces, the tensors that it is computed from. Hooks (the older form) keep the pieces
beside it, as <name>_<piece>, and set the computed tensor before
each forward call; a parametrization keeps them in a module of its own and computes at each access.
"""

import tessera
from tessera.nn import functional as F
from tessera.nn.parameter import Parameter, UninitializedParameter


def register(module, name, tensor):
    """Makes a parameter a parameter of the module and any other tensor a buffer."""
    (module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer)(name, tensor)


def tensor_of(module, name):
    """The parameter or buffer of this name. ValueError if there is none."""
    tensor = getattr(module, name, None)
    if not isinstance(tensor, tessera.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


class Computed:
    """A forward pre-hook that sets module.<name>.

    A subclass has `_target` (the attribute that holds the name) and `_compute(module)`, and lists its `_pieces`.
    """

    _target = "name"
    _pieces = ()

    def __call__(self, module, inputs):
        setattr(module, getattr(self, self._target), self._compute(module))

    def _piece(self, module, piece):
        return getattr(module, getattr(self, self._target) + piece)

    def _take_place(self, module, *tensors):
        """Puts the pieces where the parameter was."""
        name = getattr(self, self._target)
        del module._parameters[name]
        for piece, tensor in zip(self._pieces, tensors):
            register(module, name + piece, tensor)

    def _give_back(self, module, parameter):
        """Puts a parameter where the pieces and the computed tensor were."""
        name = getattr(self, self._target)
        for attribute in (name, *(name + piece for piece in self._pieces)):
            if hasattr(module, attribute):
                delattr(module, attribute)
        module.register_parameter(name, parameter)


def hooks_on(module, kind, name):
    """[(key, hook)] of the module's hooks of this kind for this name."""
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, kind) and getattr(hook, hook._target) == name
    ]


def check_free(module, kind, name, what):
    """RuntimeError if there is such a hook, ValueError if the parameter has no values yet."""
    if hooks_on(module, kind, name):
        raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")
    if isinstance(getattr(module, name), UninitializedParameter):
        plain = what.replace("_norm", " normalization")
        raise ValueError(
            f"The module passed to `{kind.__name__}` can't have uninitialized parameters. Make sure to "
            f"run the dummy forward before applying {plain}"
        )


def take_off(module, kind, name, missing):
    """Removes the hook of this kind and makes the tensor a parameter again. Returns the hook.

    ValueError if there is none, with the text `missing` of name and module.
    """
    found = hooks_on(module, kind, name)
    if not found:
        raise ValueError(missing.format(name=name, module=module))
    key, hook = found[0]
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return hook


def norm_except_dim(v, dim):
    """The norm of `v` over all dims but one (dim -1: over all), in a shape that broadcasts with v."""
    if dim == -1:
        return v.norm()
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v.norm(2, others, keepdim=True) if others else v.abs()


def scaled(v, g, dim):
    """g v / |v|."""
    return v * (g / norm_except_dim(v, dim))


def as_matrix(weight, dim):
    """A matrix with a row for each index of `dim`."""
    rows = weight if dim == 0 else weight.movedim(dim, 0)
    return rows if rows.dim() == 2 else rows.reshape(rows.shape[0], -1)


def unit(vector, eps):
    return F.normalize(vector, dim=0, eps=eps)


def unit_vectors(weight, matrix, eps):
    """Random directions (u, v) of a matrix's rows and columns."""
    return tuple(unit(weight.new_empty(size).normal_(0, 1), eps) for size in matrix.shape)


@tessera.no_grad()
def power_steps(steps, eps, first, second):
    """The power method: each step points the vector x of first = (x, A, y) along A y, then that of second.

    In place, so that replicas of a module see it.
    """
    for _ in range(steps):
        for x, matrix, y in (first, second):
            x.copy_(unit(matrix.mv(y), eps))


def rows_dim(module):
    """The dim of a weight that counts outputs."""
    nn = tessera.nn
    return 1 if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) else 0
