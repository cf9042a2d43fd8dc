"""svd_lowrank, pca_lowrank and lobpcg, and the functions that are gone."""

import numpy as np
import pytest
import scipy.linalg as sl
import tessera

D = tessera.float64
close = tessera.testing.assert_close


def low_rank(*shape, rank, dtype=D):
    tessera.manual_seed(3)
    *batch, m, n = shape
    return tessera.randn(*batch, m, rank, dtype=dtype) @ tessera.randn(*batch, rank, n, dtype=dtype)


@pytest.mark.parametrize("dtype", [D, tessera.complex128], ids=str)
@pytest.mark.parametrize("shape", [(20, 10), (10, 20), (2, 9, 30), (2, 3, 12, 12)])
def test_svd_lowrank_is_exact_for_low_rank(shape, dtype):
    a = low_rank(*shape, rank=3, dtype=dtype)
    U, S, V = tessera.svd_lowrank(a, q=5)
    assert U.shape == (*shape[:-1], 5) and S.shape == (*shape[:-2], 5) and V.shape == (*shape[:-2], shape[-1], 5)
    close((U * S.unsqueeze(-2)) @ V.mH, a)
    close(S[..., :3], tessera.linalg.svdvals(a)[..., :3])
    eye = tessera.eye(5, dtype=dtype).expand(*shape[:-2], 5, 5)
    close(U.mH @ U, eye)
    close(V.mH @ V, eye)


def test_svd_lowrank_takes_off_m_and_defaults():
    a = low_rank(12, 8, rank=2)
    mean = a.mean(-2, keepdim=True)
    U, S, V = tessera.svd_lowrank(a, M=mean)
    assert S.shape == (6,)
    close((U * S) @ V.mT, a - mean)
    assert tessera.svd_lowrank(a, q=100)[1].shape == (8,)
    assert tessera.svd_lowrank(a, q=0)[0].shape == (12, 0)
    rough, fine = (tessera.svd_lowrank(tessera.diag(tessera.linspace(1, 2, 40, dtype=D)), 4, n)[1] for n in (0, 6))
    assert rough.sum() < fine.sum() <= 2 * 4


def test_pca_lowrank_finds_the_directions():
    tessera.manual_seed(0)
    scores = tessera.randn(200, 2, dtype=D) * tessera.tensor([5.0, 2.0], dtype=D)
    directions = tessera.linalg.qr(tessera.randn(6, 2, dtype=D)).Q
    data = scores @ directions.T + 7
    U, S, V = tessera.pca_lowrank(data, q=2)
    close((V.T @ directions).abs().sum(), tessera.tensor(2.0, dtype=D), rtol=0.2, atol=0)
    close((U * S) @ V.T, data - data.mean(0))
    close(S**2 / 199, tessera.linalg.eigvalsh(tessera.cov(data.T)).flip(0)[:2])
    assert tessera.pca_lowrank(data)[1].shape == (6,)
    close(tessera.pca_lowrank(data, q=3, center=False)[1], tessera.linalg.svdvals(data)[:3])


@pytest.mark.parametrize("shape", [(5, 4), (4, 5), (3, 5, 4), (3, 4, 5)])
def test_lowrank_results_are_contiguous_and_draw_for_one_matrix(shape):
    a = tessera.randn(shape, dtype=D)
    tessera.manual_seed(1)
    assert all(t.is_contiguous() for t in tessera.svd_lowrank(a, 2))
    after = tessera.rand(1)
    tessera.manual_seed(1)
    tessera.randn(8, dtype=D)
    assert tessera.equal(tessera.rand(1), after)


def test_lowrank_refusals():
    a = tessera.ones(4, 3)
    for call, error in (
        (lambda: tessera.pca_lowrank(a, q=4), ValueError),
        (lambda: tessera.pca_lowrank(a, q=-1), ValueError),
        (lambda: tessera.pca_lowrank(a, niter=-1), ValueError),
        (lambda: tessera.svd_lowrank(a, q=-1), ValueError),
        (lambda: tessera.svd_lowrank(a, niter=-2), ValueError),
        (lambda: tessera.svd_lowrank(a[0]), RuntimeError),
        (lambda: tessera.pca_lowrank(a[0]), RuntimeError),
    ):
        with pytest.raises(error):
            call()


def test_lowrank_gradients():
    a = low_rank(6, 4, rank=2).requires_grad_()

    def values(a):
        tessera.manual_seed(1)
        U, S, V = tessera.svd_lowrank(a, q=2)
        return S, (U * S) @ V.mT

    assert tessera.autograd.gradcheck(values, (a,))


# ---- lobpcg


def positive(n, dtype=D):
    tessera.manual_seed(5)
    q = tessera.linalg.qr(tessera.randn(n, n, dtype=dtype)).Q
    return (q * tessera.logspace(-2, 2, n, dtype=D).to(q.dtype)) @ q.mH


@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [tessera.float32, D, tessera.complex128], ids=str)
def test_lobpcg_finds_the_extreme_pairs(dtype, largest, method):
    a = positive(40, dtype)
    wanted = tessera.linalg.eigvalsh(a)
    wanted = wanted.flip(0)[:3] if largest else wanted[:3]
    inverse = tessera.linalg.inv(a)
    E, X = tessera.lobpcg(a, k=3, largest=largest, method=method, iK=None if largest else inverse)
    rough = 1e-3 if dtype == tessera.float32 else 1e-6
    close(E, wanted, rtol=rough, atol=rough)
    assert X.shape == (40, 3) and X.dtype == dtype
    close(X.mH @ X, tessera.eye(3, dtype=dtype), rtol=0, atol=rough)
    close(a @ X, X * E, rtol=0, atol=30 * rough)


def test_lobpcg_generalized_batches_and_starts():
    a = tessera.stack([positive(30), 2 * positive(30)])
    b = positive(30) / 100 + tessera.eye(30, dtype=D)
    E, X = tessera.lobpcg(a, B=b.expand(2, 30, 30), k=2, tol=1e-9)
    for i in range(2):
        wanted = sl.eigh(a[i].numpy(), b.numpy(), eigvals_only=True)[::-1][:2].copy()
        close(E[i], tessera.from_numpy(wanted), rtol=1e-8, atol=0)
        close(X[i].mT @ b @ X[i], tessera.eye(2, dtype=D))
    start = tessera.linalg.eigh(a).eigenvectors[..., -3:]
    E, X = tessera.lobpcg(a, X=start, niter=0)
    assert E.shape == (2, 3)
    close(E, tessera.linalg.eigvalsh(a)[..., -3:].flip(-1))
    assert tessera.lobpcg(a, k=1, n=4)[0].shape == (2, 1)


def test_lobpcg_tracker_and_limits():
    a = positive(30)
    steps = []

    def tracker(worker):
        steps.append((worker.ivars["istep"], worker.E.clone(), float(worker.tvars["rerr"].max())))
        assert worker.X.shape == (30, 2) and worker.R.shape == (30, 2)
        assert worker.A is not None and worker.B is None and worker.iK is None
        assert worker.iparams["k"] == 2 and worker.fparams["tol"] == 1e-10 and worker.bparams["largest"] is True
        assert 0 <= worker.ivars["converged_count"] <= 2

    tessera.lobpcg(a, k=2, tol=1e-10, tracker=tracker)
    assert [s[0] for s in steps] == list(range(len(steps))) and len(steps) > 3
    assert steps[-1][2] < 1e-10 < steps[0][2]
    limited = []
    tessera.lobpcg(a, k=2, tol=1e-30, niter=4, tracker=lambda w: limited.append(w.ivars["istep"]))
    assert limited == [0, 1, 2, 3, 4]
    stopped = []

    def stop(worker):
        stopped.append(0)
        worker.bvars["force_stop"] = len(stopped) == 2

    tessera.lobpcg(a, k=2, tol=1e-30, tracker=stop)
    assert len(stopped) == 2


def test_lobpcg_parameters_of_ortho():
    a = positive(30)
    rank_two = tessera.linalg.eigh(a).eigenvectors[:, [0, 0, 1]]  # a start that is dependent
    for drop in (True, False):
        E, _ = tessera.lobpcg(a, X=rank_two, k=2, ortho_bparams={"ortho_use_drop": drop}, ortho_iparams={"i_max": 4})
        assert E.shape == (2,)
    seen = {}
    tessera.lobpcg(
        a,
        ortho_fparams={"ortho_tau_ortho": 1e-3},
        ortho_iparams={"j_max": 1},
        tracker=lambda w: seen.update(w.fparams, **w.iparams),
    )
    assert seen["ortho_tau_ortho"] == 1e-3 and seen["ortho_j_max"] == 1
    with pytest.raises(ValueError, match="nonsense"):
        tessera.lobpcg(a, ortho_iparams={"nonsense": 1})


def test_lobpcg_refusals():
    a = positive(12)
    for call, error, words in (
        (lambda: tessera.lobpcg(a, k=5), ValueError, "3 times"),
        (lambda: tessera.lobpcg(a, k=3, n=2), ValueError, "k <= n"),
        (lambda: tessera.lobpcg(a, method="x"), ValueError, "method"),
        (lambda: tessera.lobpcg(a[:5]), RuntimeError, "square"),
        (lambda: tessera.lobpcg(a.half()), RuntimeError, "float"),
        (lambda: tessera.lobpcg(a, X=tessera.ones(11, 1, dtype=D)), RuntimeError, "X"),
        (lambda: tessera.lobpcg(a, B=a.float()), RuntimeError, "B"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("generalized", [False, True])
def test_lobpcg_gradients(generalized):
    a = positive(9).requires_grad_()
    b = (positive(9) / 50 + tessera.eye(9, dtype=D)).requires_grad_()
    start = tessera.linalg.eigh(a.detach()).eigenvectors[:, -2:]

    def pairs(a, b):
        E, X = tessera.lobpcg((a + a.mT) / 2, X=start, B=(b + b.mT) / 2 if generalized else None, tol=1e-13)
        return E, X**2

    def exact(a, b):
        lower = tessera.linalg.cholesky((b + b.mT) / 2) if generalized else tessera.eye(9, dtype=D)
        inverse = tessera.linalg.inv(lower)
        E, V = tessera.linalg.eigh(inverse @ ((a + a.mT) / 2) @ inverse.mT)
        return E[-2:].flip(0), ((inverse.mT @ V)[:, -2:].flip(1)) ** 2

    inputs = (a, b) if generalized else (a,)
    for i in range(2):
        got = tessera.autograd.grad((pairs(a, b)[i] ** 3).sum(), inputs)
        wanted = tessera.autograd.grad((exact(a, b)[i] ** 3).sum(), inputs)
        close(got, wanted, rtol=1e-6, atol=1e-7)


# ---- what is gone


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_what_to_use(name):
    with pytest.raises(RuntimeError, match="linalg"):
        getattr(tessera, name)(tessera.eye(2))
    if name != "matrix_rank":
        with pytest.raises(RuntimeError, match="linalg"):
            getattr(tessera.eye(2), name)()


def test_norm_except_dim():
    t = tessera.arange(24.0).reshape(2, 3, 4)
    for dim in range(3):
        other = tuple(d for d in range(3) if d != dim)
        got = tessera.norm_except_dim(t, 2, dim)
        np.testing.assert_allclose(got.numpy(), np.sqrt((t.numpy() ** 2).sum(other, keepdims=True)), rtol=1e-6)
    assert tessera.norm_except_dim(t, 2, -1).shape == ()


@pytest.mark.parametrize("layout", [tessera.sparse_coo, tessera.sparse_csr])
def test_sparse_matrices(layout):
    a = low_rank(12, 9, rank=3)
    if layout == tessera.sparse_coo:
        U, S, V = tessera.pca_lowrank(a.to_sparse(), 3)
        close(U * S @ V.mT, a - a.mean(0))
    d = tessera.arange(1.0, 13.0, dtype=D).diag()
    values, vectors = tessera.lobpcg(d.to_sparse(layout=layout), k=2)
    close(values, tessera.tensor([12.0, 11.0], dtype=D))
    close(d @ vectors, vectors * values, rtol=0, atol=1e-5)
