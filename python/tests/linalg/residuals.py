"""LAPACK's residual ratios: how far a result is from being exact, in units of what rounding may do. Computed in long
double from arrays of any dtype. Below about 30 an algorithm is as stable as it can be.
"""

import numpy as np


def wide(a):
    a = np.asarray(a)
    return a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble)


def norm(a):
    """The 1-norm."""
    return np.abs(a).sum(0).max() if a.size else np.longdouble(0)


def eps(dtype):
    return np.longdouble(np.finfo(np.zeros(0, dtype).real.dtype).eps)


def tiny(dtype):
    return np.longdouble(np.finfo(np.zeros(0, dtype).real.dtype).smallest_normal)


def ratio(error, scale, n, dtype):
    """|error| / (n scale eps), where numbers below the smallest normal one count as 0."""
    if error.size == 0:
        return 0.0
    assert np.isfinite(error).all()
    return float(norm(error) / (max(n, 1) * (scale * eps(dtype) + tiny(dtype))))


def product(a, *factors):
    """Of A = the product of the factors."""
    got = wide(factors[0])
    for f in factors[1:]:
        got = got @ wide(f)
    return ratio(wide(a) - got, norm(wide(a)), max(a.shape), a.dtype)


def orthonormal(q, dtype):
    """Of columns."""
    q = wide(q)
    return ratio(q.conj().T @ q - np.eye(q.shape[1]), 1, max(q.shape), dtype)


def eigenpairs(a, values, vectors):
    a, v = wide(a), wide(vectors)
    return ratio(a @ v - v * wide(values), norm(a) * max(norm(v), 1), len(a), vectors.dtype)


def solution(a, x, b):
    """Of A X = B."""
    aw, xw, bw = wide(a), wide(x), wide(b)
    return ratio(aw @ xw - bw, norm(aw) * norm(xw) + norm(bw), len(a), a.dtype)


def inverse(a, x):
    aw, xw = wide(a), wide(x)
    return ratio(aw @ xw - np.eye(len(a)), norm(aw) * norm(xw), len(a), a.dtype)


def least_squares(a, x, b):
    """The residual is orthogonal to A's columns."""
    aw, xw, bw = wide(a), wide(x), wide(b)
    rest = bw - aw @ xw
    scale = norm(aw) * (norm(aw) * norm(xw) + norm(bw))
    return ratio(aw.conj().T @ rest, scale, max(a.shape), a.dtype)
