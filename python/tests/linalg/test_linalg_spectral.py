"""Eigenvalues of Hermitian matrices and singular values, against NumPy and their definitions."""

import math

import numpy
import pytest
import tessera
from tessera import linalg

DTYPES = [tessera.float32, tessera.float64, tessera.complex64, tessera.complex128]


def precision(t):
    return tessera.finfo(t.dtype).eps * max(t.shape[-2:]) * 30


def drawn(*shape, dtype=tessera.float64):
    return tessera.randn(*shape, dtype=dtype, generator=tessera.Generator().manual_seed(sum(shape)))


def hermitian(*shape, dtype=tessera.float64):
    a = drawn(*shape, dtype=dtype)
    return a + a.mH


def expect_eigh(a, values, vectors):
    assert vectors.dtype == a.dtype and values.dtype == a.abs().dtype
    scale = max(a.abs().max().item(), 1) * precision(a)
    assert (a @ vectors - vectors * values.unsqueeze(-2)).abs().max() < scale
    assert (vectors.mH @ vectors - tessera.eye(a.shape[-1])).abs().max() < precision(a)
    assert (values.diff() >= 0).all()


def expect_svd(a, u, s, vh):
    scale = max(a.abs().max().item(), 1) * precision(a)
    k = s.shape[-1]
    assert ((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :] - a).abs().max() < scale
    for q in (u, vh.mH):
        assert (q.mH @ q - tessera.eye(q.shape[-1])).abs().max() < precision(a)
    assert (s.diff() <= 0).all() and (s >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5, 5), (2, 2, 17, 17), (40, 40), (2, 70, 70), (150, 150)])
def test_eigh(dtype, shape):
    a = hermitian(*shape, dtype=dtype)
    expect_eigh(a, *linalg.eigh(a))
    wanted = numpy.linalg.eigvalsh(a.to(tessera.complex128).numpy())
    for values in (linalg.eigvalsh(a), linalg.eigh(a)[0], linalg.eigvalsh(a, UPLO="U")):
        assert numpy.abs(values.numpy() - wanted).max() < precision(a) * max(1, numpy.abs(wanted).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 5, 3), (2, 3, 5), (40, 40), (2, 90, 35), (35, 90)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(dtype, shape, full):
    a = drawn(*shape, dtype=dtype)
    u, s, vh = linalg.svd(a, full_matrices=full)
    m, n = shape[-2:]
    k = min(m, n)
    assert u.shape[-2:] == (m, m if full else k) and vh.shape[-2:] == (n if full else k, n) and s.shape[-1] == k
    expect_svd(a, u, s, vh)
    wanted = numpy.linalg.svd(a.to(tessera.complex128).numpy(), compute_uv=False)
    assert numpy.abs(linalg.svdvals(a).numpy() - wanted).max() < precision(a) * wanted.max()
    old_u, old_s, old_v = tessera.svd(a, some=not full)
    assert tessera.equal(old_u, u) and tessera.equal(old_s, s) and tessera.equal(old_v, vh.mH)


def test_one_triangle_is_read():
    a = hermitian(2, 33, 33, dtype=tessera.complex128)
    lower = a.tril() + tessera.full_like(a, math.nan).triu(1)
    upper = a.triu() + tessera.full_like(a, math.nan).tril(-1)
    assert tessera.equal(linalg.eigvalsh(lower), linalg.eigvalsh(a))
    assert tessera.equal(linalg.eigh(upper, UPLO="u")[1], linalg.eigh(a, UPLO="U")[1])


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: a.mT,
        lambda a: a.mH,
        lambda a: a.flip(-1).mT,
        lambda a: tessera.stack([a, a], -1)[..., 0],
        lambda a: a[:1].expand(3, -1, -1),
        lambda a: a.transpose(0, 1).contiguous().transpose(0, 1),
        lambda a: a.conj(),
    ],
)
def test_strides(layout):
    square = layout(hermitian(3, 6, 6, dtype=tessera.complex128))
    values, vectors = linalg.eigh(square)
    below = square.tril(-1)
    expect_eigh(below + below.mH + tessera.diag_embed(square.diagonal(0, -2, -1).real), values, vectors)
    a = layout(drawn(3, 6, 4, dtype=tessera.complex128))
    expect_svd(a, *linalg.svd(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_to_do(dtype):
    for shape in [(0, 0), (0, 3, 3), (2, 0, 0)]:
        values, vectors = linalg.eigh(tessera.zeros(shape, dtype=dtype))
        assert values.shape == shape[:-1] and vectors.shape == shape
        assert linalg.eigvalsh(tessera.zeros(shape, dtype=dtype)).shape == shape[:-1]
    u, s, vh = linalg.svd(tessera.zeros(2, 0, 3, dtype=dtype))
    assert u.shape == (2, 0, 0) and s.shape == (2, 0)
    assert tessera.equal(vh, tessera.eye(3, dtype=dtype).expand(2, 3, 3))
    u, s, vh = linalg.svd(tessera.zeros(3, 0, dtype=dtype), full_matrices=False)
    assert u.shape == (3, 0) and s.shape == (0,) and vh.shape == (0, 0)
    assert linalg.svdvals(tessera.zeros(0, 3, 4, dtype=dtype)).shape == (0, 3)


def test_results_are_named():
    a = hermitian(3, 3)
    r = linalg.eigh(a)
    assert r.eigenvalues is r[0] and r.eigenvectors is r[1]
    for r, last in ((linalg.svd(a), "Vh"), (tessera.svd(a), "V")):
        assert r.U is r[0] and r.S is r[1] and getattr(r, last) is r[2]


def test_old_svd_without_vectors():
    u, s, v = a = tessera.svd(drawn(2, 5, 3), compute_uv=False)
    assert u.shape == (2, 5, 5) and v.shape == (2, 3, 3) and not u.any() and not v.any()
    u, s, v = tessera.svd(drawn(2, 5, 3), some=False, compute_uv=False)
    assert u.shape == (2, 5, 5) and tessera.equal(s, a.S)


def test_out():
    a = hermitian(2, 5, 5)
    values, vectors = tessera.empty(0, dtype=a.dtype), tessera.empty(2, 5, 5, dtype=a.dtype).mT
    results = linalg.eigh(a, out=(values, vectors))
    assert results[0] is values and results[1] is vectors and tessera.equal(vectors, linalg.eigh(a)[1])
    s = tessera.empty(2, 3, 5, dtype=a.dtype)[:, 1]
    assert linalg.svdvals(a, out=s) is s and tessera.equal(s, linalg.svdvals(a))
    with pytest.raises(RuntimeError, match="dtype"):
        linalg.svdvals(a, out=tessera.empty(0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("f", [linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, tessera.svd])
def test_not_finite(bad, f):
    a = hermitian(3, 40, 40)
    a[1, 4, 2] = bad
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\): .* non-finite values"):
        f(a)
    with pytest.raises(linalg.LinAlgError, match="d: The algorithm|h: The algorithm"):
        f(a[1])


def test_an_error_leaves_results_alone():
    a = hermitian(3, 3)
    a[1, 1] = math.nan
    values, vectors = tessera.ones(3, dtype=a.dtype), tessera.ones(3, 3, dtype=a.dtype)
    with pytest.raises(linalg.LinAlgError):
        linalg.eigh(a, out=(values, vectors))
    assert (values == 1).all() and (vectors == 1).all()


@pytest.mark.parametrize("at", [0, 40])
def test_an_error_in_a_batch_leaves_results_alone(at):
    a = hermitian(41, 6, 6)
    a[at, 4, 2] = math.nan
    values, vectors = tessera.ones(41, 6, dtype=a.dtype), tessera.ones(41, 6, 6, dtype=a.dtype)
    with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element {at}\): .* non-finite values"):
        linalg.eigh(a, out=(values, vectors))
    with pytest.raises(linalg.LinAlgError, match=rf"\(Batch element {at}\): .* non-finite values"):
        linalg.svdvals(a, out=values)
    assert (values == 1).all() and (vectors == 1).all()
    assert linalg.eigvalsh(a, UPLO="U").isfinite().all()


def test_values_keep_the_vectors_that_gradients_need():
    a = drawn(3, 5, 5).requires_grad_()
    assert linalg.eigvals(a).grad_fn.name() == "LinalgEigBackward0"
    with tessera.no_grad():
        assert linalg.eigvals(a).grad_fn is None


def test_errors():
    for f in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals):
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            f(tessera.ones(3))
        for dtype in (tessera.int64, tessera.bool):
            with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor|not implemented for"):
                f(tessera.ones(3, 3, dtype=dtype))
        for dtype in (tessera.float16, tessera.bfloat16, tessera.complex32):
            with pytest.raises(NotImplementedError, match="not implemented for '.*': A has to be of float32"):
                f(tessera.eye(3).to(dtype))
    with pytest.raises(RuntimeError, match="square matrices, but they are 2 by 3"):
        linalg.eigh(tessera.ones(2, 3))
    for uplo in ("X", "", "LU"):
        with pytest.raises(RuntimeError, match="'L' or 'U'"):
            linalg.eigh(tessera.eye(2), UPLO=uplo)
    with pytest.raises(RuntimeError, match="driver"):
        linalg.svd(tessera.eye(2), driver="gesvd")


@pytest.mark.parametrize("f", [lambda a: linalg.eigh(a + a.mH)[1], lambda a: linalg.svd(a)[0]])
def test_gradients_that_depend_on_phases(f):
    a = drawn(4, 4, dtype=tessera.complex128).requires_grad_()
    with pytest.raises(RuntimeError, match="phases"):
        f(a).real.sum().backward()
    tessera.linalg.vector_norm(f(a)[0].abs() ** 4).backward()
    assert a.grad.isfinite().all()


def test_gradients_need_vectors():
    a = drawn(3, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="compute_uv=True"):
        tessera._linalg_svd(a, compute_uv=False)[1].sum().backward()
    with pytest.raises(RuntimeError, match="compute_v=True"):
        tessera._linalg_eigh(a + a.mT, compute_v=False)[0].sum().backward()


def test_values_are_differentiated_in_transforms():
    a = drawn(3, 4, 4)
    wanted = linalg.svd(a)
    wanted = wanted.U @ wanted.Vh
    every = tessera.func.grad(lambda a: tessera.func.vmap(linalg.svdvals)(a).sum())(a)
    assert (every - wanted).abs().max() < 1e-12
    each = tessera.func.vmap(tessera.func.grad(lambda a: linalg.svdvals(a).sum()))(a)
    assert (each - wanted).abs().max() < 1e-12
    tangent = tessera.func.jvp(lambda a: linalg.eigvalsh(a + a.mT).sum(-1), (a,), (tessera.ones_like(a),))[1]
    assert (tangent - 8).abs().max() < 1e-12


def test_meta():
    a = tessera.empty(2, 5, 3, device="meta")
    assert [t.shape for t in linalg.svd(a)] == [(2, 5, 5), (2, 3), (2, 3, 3)]
    assert [t.stride() for t in linalg.svd(a)] == [t.stride() for t in linalg.svd(drawn(2, 5, 3))]
    assert linalg.eigvalsh(tessera.empty(3, 3, device="meta", dtype=tessera.complex64)).dtype == tessera.float32
