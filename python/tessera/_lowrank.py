"""Singular vectors of matrices of low rank, by products with random vectors (N. Halko, P. Martinsson and J. Tropp,
"Finding structure with randomness", 2009)."""

import tessera
from tessera._C import _handle_torch_function, _has_torch_function


def _range_of(product, adjoint, columns, q, niter, like):
    """Orthonormal columns that nearly span the image of a linear map: `q` of them, of vectors of `columns` numbers.

    product, adjoint: the map and its adjoint, of columns.
    """
    sketch = tessera.randn(columns, q, dtype=like.dtype, device=like.device)  # one for all matrices
    basis = tessera.linalg.qr(product(sketch)).Q
    for _ in range(niter):
        basis = tessera.linalg.qr(adjoint(basis)).Q
        basis = tessera.linalg.qr(product(basis)).Q
    return basis


def svd_lowrank(A, q=6, niter=2, M=None):
    """Approximations of the `q` largest singular values of `A - M` and of their vectors.

    Args:
        A: matrices, shape (..., m, n), floating point or complex.
        q: how many; a few more than the rank is best.
        niter: how often the random start is improved by `A^H A`; 0 or more.
        M: what is taken off, broadcast to A's shape: means, in most cases.

    Returns: a tuple (U, S, V) with A - M ~ U diag(S) V^H; shapes (..., m, q), (..., q), (..., n, q), with at most
        min(m, n) for q.
    Raises: RuntimeError for fewer than two dimensions or other dtypes, ValueError for a negative `q` or `niter`.

    The start is drawn from the global generator: `manual_seed` makes results repeatable.
    """
    if _has_torch_function((A, M)):
        return _handle_torch_function(svd_lowrank, (A, M), A, q=q, niter=niter, M=M)
    if A.dim() < 2:
        raise RuntimeError(f"svd_lowrank(): expected matrices, but got a tensor of the shape {tuple(A.shape)}")
    if q < 0 or niter < 0:
        raise ValueError(f"svd_lowrank(): q and niter must not be negative, but got q={q} and niter={niter}")
    if M is not None:
        M = M.broadcast_to(A.shape)
    wide = A.shape[-2] < A.shape[-1]  # the smaller of both sides is reduced

    def product(x):
        return A @ x if M is None else A @ x - M @ x

    def adjoint(x):
        return A.mH @ x if M is None else A.mH @ x - M.mH @ x

    if wide:
        product, adjoint = adjoint, product
    columns = A.shape[-2] if wide else A.shape[-1]
    basis = _range_of(product, adjoint, columns, min(q, columns), niter, A)
    U, S, Vh = tessera.linalg.svd(adjoint(basis).mH, full_matrices=False)
    U, V = basis @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """The principal components of observations, by `svd_lowrank`.

    Args:
        A: observations in rows, variables in columns: shape (..., m, n), floating point or complex.
        q: how many components; default min(6, m, n).
        center: the columns' means are taken off first.
        niter: how often the random start is improved; 0 or more.

    Returns: a tuple (U, S, V) of shapes (..., m, q), (..., q), (..., n, q). The columns of V are the principal
        directions, A @ V[:, :k] the first k components; S ** 2 / (m - 1) their variances.
    Raises: ValueError for a `q` that is not in [0, min(m, n)] or a negative `niter`, RuntimeError as `svd_lowrank`.
    """
    if _has_torch_function((A,)):
        return _handle_torch_function(pca_lowrank, (A,), A, q=q, center=center, niter=niter)
    if A.dim() < 2:
        raise RuntimeError(f"pca_lowrank(): expected matrices, but got a tensor of the shape {tuple(A.shape)}")
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    means = A.mean(-2, keepdim=True) if center else None
    return svd_lowrank(A, q, niter, means.to_dense() if center and A.is_sparse else means)
