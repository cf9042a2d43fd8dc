"""Matrices on which naive algorithms lose digits, overflow or do not end, by name: functions of a size and a NumPy
generator that give float64 or complex128 arrays.

`matrices(kind, n, dtype)` brings one of them to a dtype; those that cannot be held in it (huge numbers in float32) are
made for it.
"""

import zlib

import numpy as np


def _limits(dtype):
    return np.finfo(np.zeros(0, dtype).real.dtype)


def _noise(n, rng, dtype):
    x = rng.standard_normal((n, n))
    return x + 1j * rng.standard_normal((n, n)) if np.issubdtype(dtype, np.complexfloating) else x


def _unitary(n, rng, dtype):
    return np.linalg.qr(_noise(n, rng, dtype))[0]


def _with_values(values, n, rng, dtype):
    """Singular values as given."""
    return (_unitary(n, rng, dtype) * values) @ _unitary(n, rng, dtype)


def random(n, rng, dtype):
    return _noise(n, rng, dtype)


def identity(n, rng, dtype):
    return np.eye(n)


def zero(n, rng, dtype):
    return np.zeros((n, n))


def ones(n, rng, dtype):
    return np.ones((n, n))


def graded_rows(n, rng, dtype):
    return _noise(n, rng, dtype) * np.logspace(0, -np.log10(1 / _limits(dtype).eps), n)[:, None]


def graded_columns(n, rng, dtype):
    return graded_rows(n, rng, dtype).T.copy()


def graded_diagonal(n, rng, dtype):
    scale = np.logspace(0, -8 if _limits(dtype).bits == 64 else -3, n)
    return _noise(n, rng, dtype) * scale[:, None] * scale


def nearly_singular(n, rng, dtype):
    values = np.ones(n)
    values[-1] = 10 * _limits(dtype).eps
    return _with_values(values, n, rng, dtype)


def low_rank(n, rng, dtype):
    a = _noise(n, rng, dtype)
    return a[:, : n // 2] @ a[: n // 2]


def geometric(n, rng, dtype):
    return _with_values(np.logspace(0, np.log10(_limits(dtype).eps), n), n, rng, dtype)


def clustered(n, rng, dtype):
    """Two values, each met many times, but for rounding."""
    values = np.where(np.arange(n) % 2, 1.0, 2.0) * (1 + 4 * _limits(dtype).eps * np.arange(n))
    return _with_values(values, n, rng, dtype)


def clustered_hermitian(n, rng, dtype):
    q = _unitary(n, rng, dtype)
    values = np.where(np.arange(n) % 3, 1.0, -1.0) + 1e-10 * np.arange(n)
    return (q * values) @ q.conj().T


def jordan(n, rng, dtype):
    """One eigenvector."""
    return 2 * np.eye(n) + np.diag(np.ones(n - 1), 1)


def jordan_turned(n, rng, dtype):
    q = _unitary(n, rng, dtype)
    return q @ jordan(n, rng, dtype) @ q.conj().T


def nilpotent(n, rng, dtype):
    return np.diag(np.ones(n - 1), 1)


def companion(n, rng, dtype):
    """Of the polynomial with the roots 1 ... n, n at most 12."""
    roots = np.arange(1, min(n, 12) + 1)
    c = np.zeros((n, n))
    c[np.arange(1, n), np.arange(n - 1)] = 1
    c[0, : len(roots)] = -np.poly(roots)[1:]
    return c


def hilbert(n, rng, dtype):
    i = np.arange(n)
    return 1.0 / (i[:, None] + i + 1)


def wilkinson(n, rng, dtype):
    """Pairs of eigenvalues that agree to many digits."""
    half = (n - 1) / 2
    return np.diag(np.abs(np.arange(n) - half)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)


def growing(n, rng, dtype):
    """Its pivots double at each step of elimination with row exchanges (n up to 24 here)."""
    a = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    a[:, -1] = 1
    if n > 24:
        a[24:, :24] = 0
    return a


def kahan(n, rng, dtype):
    s, c = np.sin(1.2), np.cos(1.2)
    return np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))


def frank(n, rng, dtype):
    i = np.arange(n)
    a = n - np.maximum(i[:, None], i)
    return np.where(i[None, :] < i[:, None] - 1, 0, a).astype(float)


def grcar(n, rng, dtype):
    """Eigenvalues that react to every rounding."""
    return sum(np.diag(np.ones(n - k), k) for k in range(min(4, n))) - np.diag(np.ones(n - 1), -1)


def huge(n, rng, dtype):
    return _noise(n, rng, dtype) * (float(_limits(dtype).max) * 1e-3 / (n * n))


def tiny(n, rng, dtype):
    return _noise(n, rng, dtype) * float(_limits(dtype).tiny) * 1e3


def denormal(n, rng, dtype):
    return _noise(n, rng, dtype) * float(_limits(dtype).tiny) * 1e-3


def mixed_scales(n, rng, dtype):
    """Elements over most of the dtype's range."""
    power = np.log10(float(_limits(dtype).max)) * 0.3
    return _noise(n, rng, dtype) * 10.0 ** rng.uniform(-power, power, (n, n))


def orthogonal(n, rng, dtype):
    return _unitary(n, rng, dtype)


def shift(n, rng, dtype):
    """A permutation: the eigenvalues are roots of 1, and plain QR steps do not move."""
    return np.roll(np.eye(n), 1, axis=0)


def block_diagonal(n, rng, dtype):
    a = _noise(n, rng, dtype)
    a[: n // 2, n // 2 :] = 0
    a[n // 2 :, : n // 2] = 0
    return a


def zero_corner(n, rng, dtype):
    """First pivots are 0."""
    a = _noise(n, rng, dtype)
    a[: n // 2, : n // 2] = 0
    return a


KINDS = (
    random,
    identity,
    zero,
    ones,
    graded_rows,
    graded_columns,
    graded_diagonal,
    nearly_singular,
    low_rank,
    geometric,
    clustered,
    clustered_hermitian,
    jordan,
    jordan_turned,
    nilpotent,
    companion,
    hilbert,
    wilkinson,
    growing,
    kahan,
    frank,
    grcar,
    huge,
    tiny,
    denormal,
    mixed_scales,
    orthogonal,
    shift,
    block_diagonal,
    zero_corner,
)


def matrix(kind, n, dtype):
    """The same for every run."""
    rng = np.random.default_rng(zlib.crc32(f"{kind.__name__} {n}".encode()))
    return kind(n, rng, np.dtype(dtype)).astype(dtype)


def symmetric(a):
    return ((a.astype(_wide(a)) + a.astype(_wide(a)).conj().T) / 2).astype(a.dtype)


def positive(a):
    """Positive definite, as far from singular as rounding needs, with the scales of a."""
    wide = a.astype(_wide(a))
    norm = np.abs(wide).max() if a.size else 0
    if norm == 0:
        return np.eye(len(a)).astype(a.dtype)
    gram = (wide / norm) @ (wide / norm).conj().T
    shift_ = 4 * len(a) ** 2 * _limits(a.dtype).eps * np.abs(gram).sum(0).max()
    return ((gram + shift_ * np.eye(len(a))) * norm).astype(a.dtype)


def _wide(a):
    return np.clongdouble if np.iscomplexobj(a) else np.longdouble
