"""`norm` and `matrix_norm`: which operator computes which kind of norm."""

import math

import tessera
from tessera import _C
from tessera._C import _handle_torch_function, _has_torch_function
from tessera._lazy import require

_vector_norm = _C._linalg.linalg_vector_norm


def _finish(result, out):
    if out is None:
        return result
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
        )
    return out.resize_(result.shape).copy_(result)


def _pair(dim, rank):
    dim = tuple(dim)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    wrapped = []
    for d in dim:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        wrapped.append(d % rank)
    if wrapped[0] == wrapped[1]:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return wrapped


def _singular_values(A, dims, keepdim, reduce):
    svdvals = require("linalg.svdvals", "linalg.matrix_norm() of the order 2, -2 or 'nuc'")
    result = reduce(svdvals(A.movedim(dims, (-2, -1))))
    if keepdim:
        for d in sorted(dims):
            result = result.unsqueeze(d)
    return result


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """A norm of matrices, which lie in two dimensions of `A`.

    Args:
        ord: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.
        dim: the dimensions of rows and columns.
        dtype: the input is converted first.

    Raises: RuntimeError for another `ord`, equal dimensions or an input that is not floating point or complex;
        IndexError for dimensions out of range.
    """
    if _has_torch_function((A, out)):
        return _handle_torch_function(matrix_norm, (A, out), A, ord, dim, keepdim, dtype=dtype, out=out)
    if A.dim() < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. Got a tensor with {A.dim()}"
        )
    if not (A.is_floating_point() or A.is_complex()):
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype}")
    rows, columns = _pair(dim, A.dim())
    if ord == "fro":
        return _finish(_vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype), out)
    if isinstance(ord, str) and ord != "nuc":
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if dtype is not None:
        A = A.to(dtype)
    if ord == "nuc":
        return _finish(_singular_values(A, (rows, columns), keepdim, lambda s: s.sum(-1)), out)
    if abs(ord) == 2:
        return _finish(
            _singular_values(A, (rows, columns), keepdim, lambda s: s.amax(-1) if ord > 0 else s.amin(-1)), out
        )
    if abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    # The largest or smallest sum of absolute values in a column (1) or row (inf).
    summed, extreme = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = _vector_norm(A, 1, summed, True)
    result = sums.amax(extreme, True) if ord > 0 else sums.amin(extreme, True)
    return _finish(result if keepdim else result.squeeze((rows, columns)), out)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector norm or a matrix norm, as the arguments say.

    With `ord` None the 2-norm of all elements, or over `dim`. With `ord` given: a matrix norm for two dimensions (or a
    2-D `A` without `dim`), else a vector norm.

    Raises: RuntimeError for a `dim` of other than one or two entries, or an `ord` that does not fit.
    """
    if _has_torch_function((A, out)):
        return _handle_torch_function(norm, (A, out), A, ord, dim, keepdim, out=out, dtype=dtype)
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    keywords = {} if out is None else {"out": out}
    if ord is None:
        return _vector_norm(A, 2, dim, keepdim, dtype=dtype, **keywords)
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got [{', '.join(map(str, dim))}]"
        )
    if dim is None and A.dim() not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got " + f"{A.dim()}D."
        )
    if (dim is not None and len(dim) == 2) or (dim is None and A.dim() == 2):
        return matrix_norm(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} is for matrices, but the norm is over one dimension")
    return _vector_norm(A, ord, dim, keepdim, dtype=dtype, **keywords)
