"""Ready-made parametrizations: orthogonal, weight_norm, spectral_norm."""

import tessera
from tessera.nn.modules.module import Module

from . import parametrize
from ._computed import as_matrix, norm_except_dim, power_steps, rows_dim, scaled, tensor_of, unit, unit_vectors
from .spectral_norm import _positive

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(Q, eps=None):
    tall, few = Q.shape[-2:]
    tolerance = 10.0 * tall * tessera.finfo(Q.dtype).eps if eps is None else eps
    error = Q.mH @ Q - tessera.eye(few, dtype=Q.dtype, device=Q.device)
    return bool(error.abs().max() <= tolerance)


def _make_orthogonal(A):
    """The Q of A = Q R with a positive diagonal of R (makes it unique and continuous)."""
    reflections, scales = tessera.geqrf(A)
    signs = reflections.diagonal(dim1=-2, dim2=-1).sgn()
    return tessera.linalg.householder_product(reflections, scales) * signs.unsqueeze(-2)


# The maps: a lower triangle (..., n, k), n >= k, to n rows that are orthonormal columns.


def _skew(X):
    """A skew-Hermitian square matrix from the lower triangle, missing columns being zeros."""
    n, k = X.shape[-2:]
    lower = tessera.nn.functional.pad(X.tril(), (0, n - k))
    return lower - lower.mH


def _by_exponential(X):
    return tessera.matrix_exp(_skew(X))[..., : X.size(-1)]


def _by_cayley(X):
    half = _skew(X) / 2
    one = tessera.eye(X.size(-2), dtype=X.dtype, device=X.device)
    return tessera.linalg.solve(one - half, one + half)[..., : X.size(-1)]


def _by_reflections(X):
    below = X.tril(-1)
    scales = 2.0 / (1.0 + (below * below).sum(dim=-2))
    signs = X.diagonal(dim1=-2, dim2=-1).int()
    return tessera.linalg.householder_product(below, scales) * signs.unsqueeze(-2)


def _to_reflections(Q):
    """What _by_reflections makes Q from."""
    reflections, scales = tessera.geqrf(Q)
    signs = reflections.diagonal(dim1=-2, dim2=-1)
    signs.sign_()
    signs[scales == 0.0] *= -1
    return reflections


# Name -> the map; the first value of a trivialized one is a Householder product.
_MAPS = {"matrix_exp": _by_exponential, "cayley": _by_cayley, "householder": _by_reflections}


def _upright(function, X):
    """function(X), of the transposed matrix and back if that is the one with more rows than columns."""
    return function(X.mT).mT if X.size(-2) < X.size(-1) else function(X)


class _Orthogonal(Module):
    """X -> an orthogonal (semi-orthogonal) matrix, times `base` if trivialized (Lezcano-Casado 2019)."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if orthogonal_map == "householder" and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors.")
        vars(self).update(shape=weight.shape, orthogonal_map=orthogonal_map)
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        compute = _MAPS[self.orthogonal_map]
        return _upright(lambda x: self.base @ compute(x) if "base" in self._buffers else compute(x), X)

    @tessera.no_grad()
    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        return _upright(self._start if "base" in self._buffers else self._without_base, Q)

    def _without_base(self, Q):
        if self.orthogonal_map == "householder":
            return _to_reflections(Q)
        raise NotImplementedError(
            "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
            "use_trivialization=False."
        )

    def _start(self, Q):
        """Makes Q, with columns that make it square, the base. Every map takes -I to I (the Householder one reads signs
        from the diagonal), so the first value is the base itself.
        """
        n, k = Q.shape[-2:]
        if n > k:
            more = tessera.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(tessera.cat([Q, more], dim=-1))
        else:
            self.base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        start = tessera.zeros_like(Q, memory_format=tessera.contiguous_format)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Makes a matrix (or a batch of them) orthogonal: its rows or columns, whichever are fewer, are orthonormal.
    Returns the module.

    orthogonal_map: matrix_exp | cayley | householder (default: matrix_exp for square or complex ones, else
        householder). ValueError below 2-D.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, tessera.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrize.register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization), unsafe=True
    )
    return module


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into length (original0, for each index of `dim`; None: one for all) and direction (original1).
    Returns the module.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def _weight_norm_compat_hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        # checkpoints of the older weight_norm
        g_key, v_key = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if g_key in state_dict and v_key in state_dict:
            state_dict[f"{prefix}parametrizations.{name}.original0"] = state_dict.pop(g_key)
            state_dict[f"{prefix}parametrizations.{name}.original1"] = state_dict.pop(v_key)

    module._register_load_state_dict_pre_hook(_weight_norm_compat_hook)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        steps = _positive(n_power_iterations)
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = steps
            matrix = as_matrix(weight, self.dim)
            for name, vector in zip(("_u", "_v"), unit_vectors(matrix, matrix, eps)):
                self.register_buffer(name, vector)
            self._power_method(matrix, 15)

    def _power_method(self, matrix, steps):
        power_steps(steps, self.eps, (self._u, matrix, self._v), (self._v, matrix.mH, self._u))

    def forward(self, weight):
        if weight.ndim == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # clones, because later power iterations change them in place
        u, v = self._u.clone(), self._v.clone()
        return weight / u.conj().dot(matrix.mv(v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value, estimated by the power method (in training). Returns the
    module.
    """
    dim = rows_dim(module) if dim is None else dim
    return parametrize.register_parametrization(
        module, name, _SpectralNorm(tensor_of(module, name), n_power_iterations, dim, eps)
    )
