"""All products in all dtypes: the result has the operands' dtype and the values of the same sum in NumPy, in every
number of dimensions, empty or broadcast; mixed dtypes raise.

Integers are few and small enough that int64 holds every sum; the result wraps to its dtype as documented for integer
arithmetic.
"""

import numpy as np
import pytest
import tessera
import tessera.nn.functional as F

INTEGERS = [tessera.uint8, tessera.int8, tessera.int16, tessera.int32, tessera.int64]
FLOATS = [tessera.float32, tessera.float64, tessera.float16, tessera.bfloat16, tessera.complex64, tessera.complex128]
# Shapes of pairs for matmul: 1-d, 2-d, n-d, broadcast batches; each of them with an empty sum, empty rows, empty
# columns or an empty batch as well.
PAIRS = [
    ((3,), (3,)),
    ((0,), (0,)),
    ((2, 3), (3,)),
    ((2, 0), (0,)),
    ((0, 3), (3,)),
    ((3,), (3, 2)),
    ((0,), (0, 2)),
    ((3,), (3, 0)),
    ((2, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((0, 3), (3, 4)),
    ((2, 3), (3, 0)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 0), (0, 4)),
    ((0, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 0), (0,)),
    ((3,), (5, 3, 2)),
    ((0,), (5, 0, 2)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 0), (5, 0, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 0), (5, 0, 4)),
    ((2, 3), (5, 3, 4)),
    ((2, 0), (5, 0, 4)),
    ((40, 70), (70, 30)),
    ((3, 40, 70), (70, 30)),
    ((3, 40, 70), (3, 70, 30)),
]


def numbers(shape, dtype, seed=0):
    values = np.random.default_rng(seed + len(shape)).integers(0 if dtype == tessera.uint8 else -4, 5, shape)
    return tessera.tensor(values).reshape(shape).to(dtype)


def numpy_of(t):
    return t.to(
        tessera.complex128 if t.is_complex() else tessera.float64 if t.is_floating_point() else tessera.int64
    ).numpy()


def check(result, expected, dtype):
    assert result.dtype == dtype
    assert tuple(result.shape) == expected.shape
    wanted = tessera.tensor(np.ascontiguousarray(expected)).reshape(result.shape).to(dtype)
    tessera.testing.assert_close(
        result, wanted, rtol=0.02 if dtype in (tessera.bfloat16, tessera.float16) else 1e-6, atol=1e-6
    )


def forms(a, b):
    """(name, function of two tensors, the same in NumPy) for operands of these numbers of dimensions."""
    yield "matmul", tessera.matmul, np.matmul
    yield "@", lambda x, y: x @ y, np.matmul
    yield "__matmul__", lambda x, y: x.__matmul__(y), np.matmul
    yield "__rmatmul__", lambda x, y: y.__rmatmul__(x), np.matmul
    yield "linalg.matmul", tessera.linalg.matmul, np.matmul
    yield "matmul(out=)", lambda x, y: tessera.matmul(x, y, out=tessera.empty(0, dtype=x.dtype)), np.matmul
    if (len(a), len(b)) == (1, 1):
        yield "dot", tessera.dot, np.dot
        yield "vdot", tessera.vdot, np.vdot
        yield "inner", tessera.inner, np.inner
        yield "outer", tessera.outer, np.outer
        yield "ger", tessera.ger, np.outer
        yield (
            "addr",
            lambda x, y: tessera.addr(tessera.ones(len(x), len(y), dtype=x.dtype), x, y),
            lambda x, y: 1 + np.outer(x, y),
        )
        yield (
            "addr(beta, alpha)",
            lambda x, y: tessera.addr(tessera.ones(len(x), len(y), dtype=x.dtype), x, y, beta=2, alpha=3),
            lambda x, y: 2 + 3 * np.outer(x, y),
        )
        yield "einsum i,i", lambda x, y: tessera.einsum("i,i", x, y), np.dot
        yield "einsum i,j", lambda x, y: tessera.einsum("i,j->ij", x, y), np.outer
    if (len(a), len(b)) == (2, 1):
        start = lambda x: tessera.ones(x.shape[0], dtype=x.dtype)  # noqa: E731
        yield "mv", tessera.mv, np.matmul
        yield "addmv", lambda x, y: tessera.addmv(start(x), x, y), lambda x, y: 1 + x @ y
        yield (
            "addmv(beta, alpha)",
            lambda x, y: tessera.addmv(start(x), x, y, beta=2, alpha=3),
            lambda x, y: 2 + 3 * (x @ y),
        )
        yield "addmv_", lambda x, y: start(x).addmv_(x, y), lambda x, y: 1 + x @ y
    if (len(a), len(b)) == (2, 2):
        start = lambda x, y: tessera.ones(x.shape[0], y.shape[1], dtype=x.dtype)  # noqa: E731
        yield "mm", tessera.mm, np.matmul
        yield "addmm", lambda x, y: tessera.addmm(start(x, y), x, y), lambda x, y: 1 + x @ y
        yield (
            "addmm(beta, alpha)",
            lambda x, y: tessera.addmm(start(x, y), x, y, beta=2, alpha=3),
            lambda x, y: 2 + 3 * (x @ y),
        )
        yield "addmm_", lambda x, y: start(x, y).addmm_(x, y), lambda x, y: 1 + x @ y
        yield "linear", lambda x, y: F.linear(x, y.t()), np.matmul
        yield (
            "linear(bias)",
            lambda x, y: F.linear(x, y.t(), tessera.ones(y.shape[1], dtype=x.dtype)),
            lambda x, y: 1 + x @ y,
        )
        yield "multi_dot", lambda x, y: tessera.linalg.multi_dot([x, y]), np.matmul
        yield "chain_matmul", lambda x, y: tessera.chain_matmul(x, y), np.matmul
        yield "inner", lambda x, y: tessera.inner(x, y.t()), np.matmul
        for equation in ("ij,jk->ik", "ij,jk->ki", "ij,jk->ijk"):
            yield (
                "einsum " + equation,
                lambda x, y, e=equation: tessera.einsum(e, x, y),
                lambda x, y, e=equation: np.einsum(e, x, y),
            )
    if (len(a), len(b)) == (3, 3) and a[0] == b[0]:
        start = lambda x, y: tessera.ones(x.shape[0], x.shape[1], y.shape[2], dtype=x.dtype)  # noqa: E731
        yield "bmm", tessera.bmm, np.matmul
        yield "baddbmm", lambda x, y: tessera.baddbmm(start(x, y), x, y), lambda x, y: 1 + x @ y
        yield (
            "baddbmm(beta, alpha)",
            lambda x, y: tessera.baddbmm(start(x, y), x, y, beta=2, alpha=3),
            lambda x, y: 2 + 3 * (x @ y),
        )
        yield "addbmm", lambda x, y: tessera.addbmm(start(x, y)[0], x, y), lambda x, y: 1 + (x @ y).sum(0)
        yield "addbmm_", lambda x, y: start(x, y)[0].addbmm_(x, y), lambda x, y: 1 + (x @ y).sum(0)
        yield "einsum bij,bjk->bik", lambda x, y: tessera.einsum("bij,bjk->bik", x, y), np.matmul
    if a[-1] == b[0]:
        yield "tensordot", lambda x, y: tessera.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1)
        yield (
            "tensordot of lists",
            lambda x, y: tessera.tensordot(x, y, ([x.dim() - 1], [0])),
            lambda x, y: np.tensordot(x, y, 1),
        )
    yield "tensordot of none", lambda x, y: tessera.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0)
    yield "kron", tessera.kron, np.kron


CASES = [
    (a, b, name)
    for a, b in PAIRS
    for name, *_ in forms(a, b)
    if name not in ("kron", "tensordot of none") or np.prod(a) * np.prod(b) < 10_000
]


@pytest.mark.parametrize("a, b, name", CASES, ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else v)
def test_the_dtype_of_a_product(a, b, name):
    [(function, reference)] = [(f, r) for n, f, r in forms(a, b) if n == name]
    for dtype in INTEGERS + FLOATS:
        if dtype in (tessera.float16, tessera.bfloat16) and max(a + b) > 10:
            continue  # sums of 70 numbers are rounded
        x, y = numbers(a, dtype), numbers(b, dtype, 1)
        check(function(x, y), np.asarray(reference(numpy_of(x), numpy_of(y))), dtype)


PRODUCTS = (
    "matmul",
    "@",
    "__rmatmul__",
    "linalg.matmul",
    "dot",
    "mv",
    "mm",
    "bmm",
    "addmv",
    "addmm",
    "baddbmm",
    "addbmm",
    "linear",
    "multi_dot",
    "chain_matmul",
    "tensordot",
)


@pytest.mark.parametrize(
    "a, b",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 2, 0), (0, 4)),
        ((5, 2, 0), (5, 0, 4)),
    ],
    ids=str,
)
def test_operands_of_different_dtypes(a, b):
    checked = 0
    for name, function, _ in forms(a, b):
        if name not in PRODUCTS:
            continue
        for left, right in [
            (tessera.int32, tessera.int64),
            (tessera.int64, tessera.float32),
            (tessera.float32, tessera.float64),
            (tessera.bfloat16, tessera.float32),
            (tessera.complex64, tessera.float32),
            (tessera.uint8, tessera.int8),
        ]:
            with pytest.raises(RuntimeError, match="dtype"):
                function(numbers(a, left), numbers(b, right))
            checked += 1
        with pytest.raises(NotImplementedError, match="Bool"):
            function(numbers(a, tessera.bool), numbers(b, tessera.bool))
    assert checked >= 24


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_that_broadcast(dtype):
    """A dimension of size 1 stands for all of the other's: it is summed in its own dtype."""
    check(
        tessera.tensordot(numbers((2, 1), dtype), numbers((3, 4), dtype, 1), ([1], [0])),
        numpy_of(numbers((2, 1), dtype)) * numpy_of(numbers((3, 4), dtype, 1)).sum(0),
        dtype,
    )
    check(
        tessera.tensordot(numbers((3,), dtype), numbers((1,), dtype, 1), 1),
        np.asarray(numpy_of(numbers((3,), dtype)).sum() * numpy_of(numbers((1,), dtype, 1))[0]),
        dtype,
    )


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_powers(dtype):
    square = numbers((3, 3), dtype)
    for n in range(4):
        for power in (tessera.matrix_power, tessera.linalg.matrix_power):
            check(power(square, n), np.linalg.matrix_power(numpy_of(square), n), dtype)
    check(tessera.chain_matmul(square, square, square), np.linalg.matrix_power(numpy_of(square), 3), dtype)


def test_empty_sums_have_histories():
    a, b = tessera.ones(5, 2, 0, requires_grad=True), tessera.ones(0, 4, requires_grad=True)
    r = a @ b
    assert r.shape == (5, 2, 4) and not r.detach().any()
    r.sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape
