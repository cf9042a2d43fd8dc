"""What distributions share: parameters of one shape, probabilities and logits, values computed when asked for."""

from numbers import Number

import tessera
from tessera import _C

__all__ = [
    "broadcast_all",
    "logits_to_probs",
    "clamp_probs",
    "probs_to_logits",
    "lazy_property",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060  # the Euler-Mascheroni constant


def broadcast_all(*values):
    """Tensors of one shape made of numbers and tensors.

    Numbers take dtype and device of the first tensor, or the default ones where there is none. Tensors that have the
    common shape are returned themselves.

    Raises: ValueError for a value that is neither; RuntimeError where shapes do not broadcast.
    """
    options = None
    for value in values:
        if hasattr(value, "__torch_function__"):
            options = {"dtype": value.dtype, "device": value.device} if options is None else options
        elif not isinstance(value, Number):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                f"__torch_function__, but one is a {type(value).__name__}"
            )
    options = {"dtype": tessera.get_default_dtype()} if options is None else options
    tensors = [v if hasattr(v, "__torch_function__") else _C.tensor(v, **options) for v in values]
    shape = tensors[0].shape
    for tensor in tensors:
        if tensor.shape != shape:
            return _C.broadcast_tensors(tensors)
    return tensors


def shape_of_numbers(values):
    """True if all values are Python's numbers, so that they make a distribution without batch dimensions."""
    return all(isinstance(value, Number) for value in values)


def clamp_probs(probs):
    """Probabilities of any floating dtype, held within [eps, 1 - eps] of that dtype, so that logits are finite."""
    eps = tessera.finfo(probs.dtype).eps if probs.dtype.is_floating_point else tessera.finfo(_C.float64).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits, is_binary=False):
    """Probabilities of logits: their sigmoid where each stands for itself, else the softmax over the last dimension."""
    return _C.sigmoid(logits) if is_binary else _C.softmax(logits, dim=-1)


def probs_to_logits(probs, is_binary=False):
    """Logits of probabilities, which are held away from 0 and 1 first: log odds (`is_binary`), or logarithms."""
    held = clamp_probs(probs)
    return _C.log(held) - _C.log1p(-held) if is_binary else _C.log(held)


class lazy_property:
    """A property that is computed once, with gradients, and is an ordinary attribute from then on.

    class Circle:
        @lazy_property
        def area(self):
            return 3.14159 * self.radius**2
    """

    def __init__(self, wrapped):
        self.wrapped, self.name = wrapped, wrapped.__name__
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return _LazyOnClass(self)
        if tessera.is_grad_enabled():
            value = self.wrapped(instance)
        else:
            with tessera.enable_grad():
                value = self.wrapped(instance)
        instance.__dict__[self.name] = value  # a __setattr__ of others may ask for what is made here
        return value


class _LazyOnClass(lazy_property, property):
    """What the class itself shows of a lazy property: tools that list properties find one."""

    def __init__(self, lazy):
        property.__init__(self, lazy.wrapped)
        self.wrapped, self.name = lazy.wrapped, lazy.name


def tril_matrix_to_vec(mat, diag=0):
    """The elements on and below the diagonal `diag` of matrices (..., n, n), row by row: (..., number of them)."""
    rows, columns = _below(mat.shape[-1], diag, mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """Matrices (..., n, n) that hold the elements (..., k) row by row on and below the diagonal `diag`, and 0 above it.

    Raises: ValueError if k elements do not fill such a triangle.
    """
    # Below a diagonal lies a triangle, above one, too: the whole is larger by that.
    count, n = int(vec.shape[-1]), max(-diag, 0)
    while (held := _triangle(n + diag) if diag <= 0 else n * n - _triangle(n - 1 - diag)) < count:
        n += 1
    if held != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    rows, columns = _below(n, diag, vec.device)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat


def _triangle(rows):
    return rows * (rows + 1) // 2 if rows > 0 else 0


def _below(n, diag, device):
    return _C.tril_indices(n, n, offset=diag, device=device).unbind(0)


def _standard_normal(shape, dtype, device):
    return _C.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """Sums over the last `dim` dimensions of a tensor (or leaves it, for 0)."""
    return value if dim == 0 else value.flatten(-dim).sum(-1)
