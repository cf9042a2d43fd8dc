"""Q R, products of reflections, least squares, and eigenvalues of general matrices."""

import numpy as np
import pytest
import tessera

L = tessera.linalg
NUMBERS = [tessera.float32, tessera.float64, tessera.complex64, tessera.complex128]
SHAPES = [(5, 3), (3, 5), (4, 4), (2, 7, 3), (3, 2, 3, 6), (130, 70), (0, 3), (3, 0), (0, 4, 2), (2, 0, 0)]


def random(*shape, dtype=tessera.float64, seed=0):
    g = tessera.Generator().manual_seed(seed)
    return tessera.randn(*shape, dtype=dtype, generator=g)


def close(a, b, scale=100):
    assert a.shape == b.shape
    eps = tessera.finfo(a.dtype).eps
    tessera.testing.assert_close(a, b.to(a.dtype), rtol=scale * eps, atol=scale * eps)


def is_orthonormal(q):
    close(q.mH @ q, tessera.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1))


# --- Q R


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(shape, dtype):
    a = random(*shape, dtype=dtype)
    *batch, m, n = shape
    k = min(m, n)
    for mode, columns in (("reduced", k), ("complete", m)):
        q, r = L.qr(a, mode)
        assert q.shape == (*batch, m, columns) and r.shape == (*batch, columns, n)
        close(q @ r, a, 1000)
        is_orthonormal(q)
        assert not r.tril(-1).any()
        diagonal = r.diagonal(dim1=-2, dim2=-1)
        assert not dtype.is_complex or not diagonal.imag.any()
    empty, only = L.qr(a, "r")
    assert empty.shape == (0,) and empty.dtype == dtype
    tessera.testing.assert_close(only, L.qr(a).R, rtol=0, atol=0)


def test_qr_reads_any_layout():
    a = random(4, 6, 5, dtype=tessera.complex128)
    want = L.qr(a)
    for same in (a.mT.contiguous().mT, a.conj().resolve_conj().conj(), a.repeat(2, 1, 1)[::2][:4].flip(0).flip(0)):
        got = L.qr(same)
        if same.shape == a.shape and bool((same == a).all()):
            close(got.Q, want.Q)
            close(got.R, want.R)
    spread = tessera.zeros(4, 12, 10, dtype=a.dtype)[:, ::2, ::2]
    spread.copy_(a)
    close(L.qr(spread).R, want.R)
    out = (tessera.empty(4, 5, 6, dtype=a.dtype).mT, tessera.empty(5, 5, 4, dtype=a.dtype).permute(2, 1, 0))
    got = L.qr(a, out=out)
    assert got[0] is out[0] and got[1] is out[1]
    close(out[0], want.Q)
    close(out[1], want.R)


def test_qr_older_name():
    a = random(5, 3)
    q, r = tessera.qr(a)
    assert type(tessera.qr(a)).__name__ == "qr" and q.shape == (5, 3)
    assert a.qr(some=False)[0].shape == (5, 5)
    close(q @ r, a)


def test_qr_of_matrices_without_full_rank_and_of_numbers_that_are_none():
    a = random(6, 3)
    a[:, 1] = 0
    q, r = L.qr(a)
    close(q @ r, a)
    is_orthonormal(q)
    a[2, 2] = float("nan")
    assert L.qr(a).Q.isnan().any()


@pytest.mark.parametrize("mode", ["r", "complete"])
def test_qr_that_is_not_differentiable(mode):
    a = random(5, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="depends on Q|nrows > ncols"):
        L.qr(a, mode).R.sum().backward()


def test_qr_errors():
    with pytest.raises(RuntimeError, match="unrecognized mode 'full' but expected"):
        L.qr(random(3, 3), "full")
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        L.qr(random(3))
    for dtype in (tessera.int64, tessera.float16):
        with pytest.raises(RuntimeError, match="float32, float64"):
            L.qr(tessera.ones(3, 3, dtype=dtype))
    with pytest.raises(RuntimeError, match="dtype"):
        L.qr(random(3, 3), out=(tessera.empty(0, dtype=tessera.float32), tessera.empty(0, dtype=tessera.float64)))


# --- Reflections


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_geqrf_and_its_products(dtype):
    a = random(2, 6, 4, dtype=dtype)
    h, tau = tessera.geqrf(a)
    q, r = L.qr(a)
    close(h.triu()[:, :4], r)
    close(L.householder_product(h, tau), q)
    close(tessera.orgqr(h, tau), q)
    # By hand: (I - tau v v^H) of each column, from the last on.
    product = tessera.eye(6, dtype=dtype).repeat(2, 1, 1)
    for i in reversed(range(4)):
        v = h[:, :, i : i + 1].tril(-1 - i).clone()
        v[:, :i] = 0
        v[:, i] = 1
        v[:, i + 1 :] = h[:, i + 1 :, i : i + 1]
        product = product - tau[:, i].view(2, 1, 1) * v @ (v.mH @ product)
    close(product[:, :, :4], q)
    c = random(2, 6, 3, dtype=dtype, seed=1)
    close(tessera.ormqr(h, tau, c), product @ c)
    close(tessera.ormqr(h, tau, c, transpose=True), product.mH @ c)
    close(tessera.ormqr(h, tau, c.mH, left=False), c.mH @ product)
    close(tessera.ormqr(h, tau, c.mH, left=False, transpose=True), c.mH @ product.mH)


def test_fewer_reflections_than_columns():
    h, tau = tessera.geqrf(random(6, 4))
    q = L.householder_product(h, tau[:2])
    is_orthonormal(q)
    close(q[:, :2], L.householder_product(h[:, :2].contiguous(), tau[:2]))
    close(L.householder_product(h, tau[:0]), tessera.eye(6, 4))


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: L.householder_product(random(3, 4), random(3)), "greater than or equal to input.shape"),
        (lambda: L.householder_product(random(4, 3), random(4)), "greater than or equal to tau.shape"),
        (lambda: L.householder_product(random(2, 4, 3), random(3)), "one dimension less"),
        (lambda: L.householder_product(random(2, 4, 3), random(1, 3)), "batch dimensions"),
        (lambda: L.householder_product(random(4, 3), random(3).float()), "dtype"),
        (lambda: tessera.geqrf(random(3)), "at least 2 dimensions"),
        (lambda: tessera.ormqr(random(4, 3), random(3), random(4)), "at least 2 dimensions"),
        (lambda: tessera.ormqr(random(4, 3), random(3), random(5, 2)), "other.shape"),
        (lambda: tessera.ormqr(random(4, 3), random(3), random(4, 2), left=False), "other.shape"),
        (lambda: tessera.ormqr(random(4, 3), random(4), random(4, 2)), "tau.shape"),
        (lambda: tessera.ormqr(random(2, 4, 3), random(2, 3), random(4, 2)), "same number of dimensions"),
        (lambda: tessera.ormqr(random(4, 3), random(3), random(4, 2).float()), "dtype"),
        (lambda: tessera.geqrf(random(3, 3).requires_grad_())[0].sum().backward(), "not implemented"),
    ],
)
def test_errors_of_reflections(call, said):
    with pytest.raises(RuntimeError, match=said):
        call()


# --- Least squares

DRIVERS = [None, "gels", "gelsy", "gelsd", "gelss"]


def test_lstsq_takes_vectors_where_the_shapes_say_so():
    """b of the shape of A without columns is one vector for each matrix; all others are columns, and broadcast."""
    a = tessera.randn(4, 4, 3, dtype=tessera.float64)
    vectors, columns = tessera.randn(4, 4, dtype=a.dtype), tessera.randn(4, 2, dtype=a.dtype)
    one_by_one = tessera.stack([L.lstsq(m, v).solution for m, v in zip(a, vectors)])
    tessera.testing.assert_close(L.lstsq(a, vectors).solution, one_by_one)
    each = tessera.stack([L.lstsq(m, columns).solution for m in a])
    tessera.testing.assert_close(L.lstsq(a, columns).solution, each)
    with pytest.raises(RuntimeError, match="size"):
        L.lstsq(a, vectors[:1])


def test_nuclear_norm_is_of_the_last_dimensions():
    a = tessera.randn(2, 3, 4, dtype=tessera.float64)
    for keepdim in (False, True):
        want = L.matrix_norm(a, "nuc", keepdim=keepdim)
        tessera.testing.assert_close(tessera.nuclear_norm(a, keepdim), want)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_lstsq_of_full_rank(dtype, driver):
    for shape in ((7, 4), (4, 7), (5, 5), (2, 3, 6, 2)):
        a, b = random(*shape, dtype=dtype), random(*shape[:-1], 3, dtype=dtype, seed=1)
        r = L.lstsq(a, b, driver=driver)
        close(
            r.solution, L.pinv(a.to(tessera.complex128)) @ b.to(tessera.complex128), 2000
        ) if dtype.is_complex else None
        if a.dim() == 2:
            want = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)[0]
            np.testing.assert_allclose(r.solution.numpy(), want, rtol=5e4 * tessera.finfo(dtype).eps)
        m, n = shape[-2:]
        batch = shape[:-2]
        rank, values = (0,) if driver == "gels" else batch, (*batch, min(m, n)) if driver in DRIVERS[3:] else (0,)
        residuals = (*batch, 3) if m > n and driver not in (None, "gelsy") else (0,)
        assert [x.shape for x in r[1:]] == [residuals, rank, values]
        assert (r.rank == min(m, n)).all() and r.rank.dtype == tessera.int64
        if residuals != (0,):
            close(r.residuals, ((a @ r.solution - b).abs() ** 2).sum(-2), 1000)


@pytest.mark.parametrize("driver", [None, "gelsd", "gelss"])
def test_lstsq_of_less_rank(driver):
    a, b = random(8, 3) @ random(3, 6, seed=1), random(8, 2, seed=2)
    r = L.lstsq(a, b, rcond=1e-10, driver=driver)
    want, _, rank, _ = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=1e-10)
    assert r.rank.item() == rank == 3 and r.residuals.shape == (0,)
    np.testing.assert_allclose(r.solution.numpy(), want, rtol=1e-9, atol=1e-12)
    nothing = L.lstsq(tessera.zeros(4, 3), tessera.ones(4, 1), driver=driver)
    assert nothing.rank.item() == 0 and not nothing.solution.any()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", [(40, 12), (90, 80), (30, 30), (12, 40)])
@pytest.mark.parametrize("last", [0.1, 1.5e-3, 0.7e-3, 1e-5])
def test_lstsq_near_its_limit(shape, dtype, last):
    """One singular value, the last, is near rcond times the others: with pivots, or without where the rank is sure."""
    k, rcond = min(shape), 1e-3
    u = L.qr(random(*shape, dtype=dtype), mode="complete")[0]
    v = L.qr(random(shape[1], shape[1], dtype=dtype, seed=1))[0]
    s = tessera.ones(k, dtype=dtype)
    s[-1] = last
    a = (u[:, :k] * s) @ v[:, :k].mH
    b = random(shape[0], 2, dtype=dtype, seed=2)
    found = L.lstsq(a, b, rcond=rcond, driver="gelsy")
    rank = int(found.rank)
    # An estimate decides: within a factor of two of the limit both are right.
    assert rank == (k if last > rcond else k - 1) or (abs(last - rcond) < rcond and rank in (k - 1, k))
    want = v[:, :rank] @ ((u[:, :rank].mH @ b) / s[:rank].unsqueeze(-1))
    # Of less rank: what is left out by columns is not quite the last singular vector.
    error = tessera.finfo(dtype).eps * 1e3 / last if rank == k else 10 * last
    tessera.testing.assert_close(found.solution, want, rtol=error, atol=error)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_lstsq_has_the_same_bits_at_any_number_of_threads(dtype):
    a, b = random(300, 150, dtype=dtype), random(300, 3, dtype=dtype, seed=1)
    a[:, 7] = a[:, 3]
    threads, results = tessera.get_num_threads(), []
    for count in (1, 2):
        tessera.set_num_threads(count)
        results.append(L.lstsq(a, b))
    tessera.set_num_threads(threads)
    assert int(results[0].rank) == 149
    assert tessera.equal(results[0].solution, results[1].solution)


def test_lstsq_with_a_limit():
    a = tessera.diag(tessera.tensor([1.0, 1e-2, 1e-5], dtype=tessera.float64))
    b = tessera.ones(3, 1, dtype=tessera.float64)
    for rcond, rank in ((1e-6, 3), (1e-3, 2), (0.5, 1), (-1.0, 3)):
        r = L.lstsq(a, b, rcond=rcond)
        assert r.rank.item() == rank
        close(r.solution[:rank, 0], 1 / a.diagonal()[:rank])


def test_lstsq_broadcasts_and_takes_vectors():
    a, b = random(2, 1, 5, 3), random(1, 3, 5, 4, seed=1)
    r = L.lstsq(a, b)
    assert r.solution.shape == (2, 3, 3, 4) and r.rank.shape == (2, 1)
    close(r.solution[1, 2], L.lstsq(a[1, 0], b[0, 2]).solution)
    v = random(2, 5, seed=2)
    for driver in ("gels", "gelsd", "gelss"):
        r = L.lstsq(a[:, 0], v, driver=driver)
        columns = L.lstsq(a[:, 0], v.unsqueeze(-1), driver=driver)
        assert r.solution.shape == (2, 3) and r.residuals.shape == (2, 1)
        close(r.solution[1], L.lstsq(a[1, 0], v[1]).solution)
        assert tessera.equal(r.solution, columns.solution.squeeze(-1))
        assert tessera.equal(r.residuals, columns.residuals)


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_lstsq_of_vectors_has_derivatives(batch):
    a, v = random(*batch, 5, 3, seed=3), random(*batch, 5, seed=4)
    inputs = [x.detach().double().requires_grad_() for x in (a, v)]
    assert tessera.autograd.gradcheck(
        lambda a, v: L.lstsq(a, v, driver="gelsd")[:2], inputs, check_forward_ad=True, check_batched_grad=True
    )


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (2, 5, 0), (2, 0, 3), (0, 5, 3)], ids=str)
@pytest.mark.parametrize("driver", DRIVERS)
def test_lstsq_of_nothing(shape, driver):
    b = tessera.ones(*shape[:-1], 2)
    r = L.lstsq(tessera.ones(*shape), b, driver=driver)
    assert r.solution.shape == (*shape[:-2], shape[-1], 2) and not r.solution.any()
    if r.residuals.shape != (0,):
        close(r.residuals, (b**2).sum(-2))
    assert L.lstsq(tessera.ones(*shape), b[..., :0], driver=driver).solution.shape == (*shape[:-2], shape[-1], 0)


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: L.lstsq(random(5, 3), random(5, 2), driver="best"), RuntimeError, "should be one of"),
        (lambda: L.lstsq(random(5), random(5)), RuntimeError, "at least 2 dimensions"),
        (lambda: L.lstsq(random(5, 3), random(4)), RuntimeError, "other.size"),
        (lambda: L.lstsq(random(5, 3), random(4, 2)), RuntimeError, "other.size"),
        (lambda: L.lstsq(random(5, 3), random(2, 5, 2)), RuntimeError, "other.dim"),
        (lambda: L.lstsq(random(2, 5, 3), random(3, 5, 2)), RuntimeError, "must match"),
        (lambda: L.lstsq(random(5, 3), random(5, 2).float()), RuntimeError, "same dtype"),
        (lambda: L.lstsq(random(5, 3).half(), random(5, 2).half()), RuntimeError, "float32, float64"),
        (
            lambda: L.lstsq(tessera.tensor([[1.0, 0.0], [0.0, 0.0]]), tessera.ones(2, 1), driver="gels"),
            L.LinAlgError,
            "full rank",
        ),
    ],
)
def test_lstsq_errors(call, error, said):
    with pytest.raises(error, match=said):
        call()


# --- Eigenvalues


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5), (120, 120), (0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_eig(shape, dtype):
    a = random(*shape, dtype=dtype)
    w, v = L.eig(a)
    assert w.shape == shape[:-1] and v.shape == shape and w.dtype == v.dtype == dtype.to_complex()
    close(a.to(v.dtype) @ v, v * w.unsqueeze(-2), 2000)
    close((v.abs() ** 2).sum(-2), tessera.ones(shape[:-1]))
    values = L.eigvals(a)
    close(values.sum(-1), w.sum(-1), 5000)
    if a.numel() and not dtype.is_complex:  # pairs follow each other
        for row in w.reshape(-1, shape[-1]).tolist():
            pending = None
            for x in row:
                if pending is not None:
                    assert x == pending.conjugate()
                    pending = None
                elif x.imag:
                    assert x.imag > 0
                    pending = x


def test_eig_of_matrices_that_are_triangular_or_defective():
    a = tessera.tensor([[1.0, 2.0, 3.0], [0.0, 4.0, 5.0], [0.0, 0.0, 6.0]])
    assert sorted(x.real for x in L.eigvals(a).tolist()) == [1.0, 4.0, 6.0]
    assert sorted(x.real for x in L.eigvals(a.mT).tolist()) == [1.0, 4.0, 6.0]
    w, v = L.eig(tessera.tensor([[1.0, 1.0], [0.0, 1.0]]))
    assert w.tolist() == [1, 1] and v.isfinite().all()
    w, v = L.eig(tessera.zeros(3, 3))
    assert not w.any()
    close(v.abs(), tessera.eye(3))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_eig_of_numbers_that_are_none(bad):
    a = random(2, 3, 3)
    a[1, 2, 0] = bad
    out = tessera.full((2, 3), 7.0, dtype=tessera.complex128)
    for call in (lambda: L.eig(a), lambda: L.eigvals(a)):
        with pytest.raises(RuntimeError, match="infs or NaNs"):
            call()
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        L.eigvals(a, out=out)
    assert (out == 7).all()


def test_eig_errors():
    with pytest.raises(RuntimeError, match="square"):
        L.eig(random(3, 4))
    with pytest.raises(RuntimeError, match="square"):
        L.eigvals(random(2, 3, 4))
    with pytest.raises(RuntimeError, match="float32, float64"):
        L.eig(tessera.ones(3, 3).int())
    a = random(3, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="multiplication by e"):
        L.eig(a).eigenvectors.sum().abs().backward()
    with pytest.raises(RuntimeError, match="cast"):
        L.eigvals(random(3, 3), out=tessera.empty(3))


def test_vmap_of_results_that_are_absent():
    a, b = random(4, 5, 3), random(4, 5, seed=1)
    r = tessera.vmap(lambda x, y: tuple(L.lstsq(x, y)))(a, b)
    assert [x.shape for x in r] == [(4, 3), (4, 0), (4,), (4, 0)]
    close(r[0], L.lstsq(a, b).solution)
    q, r = tessera.vmap(lambda x: tuple(L.qr(x, "r")))(a)
    assert q.shape == (4, 0) and r.shape == (4, 3, 3)
    h, tau = tessera.vmap(tessera.geqrf)(a)
    c = random(5, 2, seed=2)
    close(tessera.vmap(tessera.ormqr, (0, 0, None))(h, tau, c), tessera.ormqr(h, tau, c.expand(4, 5, 2)))
