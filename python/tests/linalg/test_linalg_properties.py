"""Functions of linear algebra over random shapes, batches, strides and dtypes: against NumPy, and against what they are
for single matrices.
"""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import tessera

L = tessera.linalg
DTYPES = (tessera.float32, tessera.float64, tessera.complex64, tessera.complex128)
TOLERANCE = {tessera.float32: 2e-4, tessera.complex64: 2e-4, tessera.float64: 1e-11, tessera.complex128: 1e-11}


def close(got, wanted, dtype, factor=1):
    got = got.resolve_conj().resolve_neg().numpy() if isinstance(got, tessera.Tensor) else got
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    scale = max(np.abs(wanted).max(), 1) if wanted.size else 1
    np.testing.assert_allclose(got, wanted, rtol=0, atol=TOLERANCE[dtype] * scale * factor)


def layouts(t):
    """The same numbers in other forms of memory."""
    yield "dense", t
    yield "by columns", t.mT.contiguous().mT
    if t.numel():
        wide = tessera.zeros(*t.shape[:-2], 2 * t.shape[-2], 3 * t.shape[-1], dtype=t.dtype)
        wide[..., ::2, ::3] = t
        yield "strided", wide[..., ::2, ::3]
        yield "reversed batch", t.flip(0).clone().flip(0) if t.dim() > 2 else t
    if t.dim() > 2:
        yield "batch innermost", t.movedim(0, -1).contiguous().movedim(-1, 0)
    if t.is_complex():
        yield "conjugated", t.conj().resolve_conj().conj()


def random_matrices(batch, m, n, dtype, shift=0.0):
    t = tessera.randn(*batch, m, n, dtype=dtype)
    return t + shift * tessera.eye(m, n, dtype=dtype)


BATCHES = ((), (1,), (5,), (2, 3), (0,), (2, 0, 3))
SIZES = (0, 1, 2, 3, 5, 8, 17, 40)

# name: (function, NumPy's, which matrices it takes)
SQUARE = {
    "inv": (L.inv, np.linalg.inv),
    "det": (L.det, np.linalg.det),
    "slogdet sign": (lambda a: L.slogdet(a)[0], lambda a: np.linalg.slogdet(a)[0]),
    "slogdet size": (lambda a: L.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1]),
    "power": (lambda a: L.matrix_power(a, 3), lambda a: np.linalg.matrix_power(a, 3)),
    "negative power": (lambda a: L.matrix_power(a, -2), lambda a: np.linalg.matrix_power(a, -2)),
    "solve": (lambda a: L.solve(a, a.mT.sum(-1)), lambda a: np.linalg.solve(a, a.sum(-2)[..., None])[..., 0]),
    "cholesky": (
        lambda a: L.cholesky(a @ a.mH + tessera.eye(a.shape[-1])),
        lambda a: np.linalg.cholesky(a @ a.conj().swapaxes(-1, -2) + np.eye(a.shape[-1])),
    ),
    "eigvalsh": (lambda a: L.eigvalsh(a + a.mH), lambda a: np.linalg.eigvalsh(a + a.conj().swapaxes(-1, -2))),
    "lu": (lambda a: tessera.Tensor.matmul(*_lu(a)), lambda a: a),
    "qr": (lambda a: tessera.Tensor.matmul(*L.qr(a)), lambda a: a),
    "svd": (lambda a: _rebuilt(*L.svd(a, full_matrices=False)), lambda a: a),
}


def _lu(a):
    P, lower, U = L.lu(a)
    return P @ lower, U


def _rebuilt(U, S, Vh):
    return (U * S.unsqueeze(-2)) @ Vh


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name, dtype):
    function, reference = SQUARE[name]
    tessera.manual_seed(0)
    for batch, n in itertools.product(BATCHES, SIZES):
        if name == "det" and n > 17:
            continue  # it overflows
        a = random_matrices(batch, n, n, dtype, shift=4 + n**0.5)
        wanted = reference(a.numpy())
        factor = max(1, np.abs(wanted).max()) if name in ("det", "power") and wanted.size else 1
        for layout, t in layouts(a):
            before = t.clone()
            got = function(t)
            assert got.is_contiguous() or got.numel() <= 1 or name in ("solve", "cholesky", "lu", "inv"), layout
            close(got, wanted, dtype, factor)
            assert tessera.equal(t, before)


# name: (function, NumPy's) of matrices with any numbers of rows and columns
ANY = {
    "svdvals": (L.svdvals, lambda a: np.linalg.svd(a, compute_uv=False)),
    "pinv": (L.pinv, np.linalg.pinv),
    "rank": (lambda a: L.matrix_rank(a).to(a.real.dtype), np.linalg.matrix_rank),
    "qr": (lambda a: tessera.Tensor.matmul(*L.qr(a)), lambda a: a),
    "complete qr": (lambda a: tessera.Tensor.matmul(*L.qr(a, mode="complete")), lambda a: a),
    "r": (lambda a: L.qr(a, mode="r").R.abs(), lambda a: np.abs(np.linalg.qr(a, mode="r"))),
    "svd": (lambda a: _rebuilt(*L.svd(a, full_matrices=False)), lambda a: a),
    "lu": (lambda a: tessera.Tensor.matmul(*_lu(a)), lambda a: a),
    "frobenius": (L.matrix_norm, lambda a: np.linalg.norm(a, axis=(-2, -1))),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ANY)
def test_matrices_of_any_shape(name, dtype):
    function, reference = ANY[name]
    tessera.manual_seed(1)
    for batch, (m, n) in itertools.product(
        BATCHES[:5], ((0, 0), (0, 3), (3, 0), (1, 4), (4, 1), (5, 3), (3, 5), (40, 9), (9, 40), (70, 33))
    ):
        a = random_matrices(batch, m, n, dtype)
        if a.numel() == 0 and name in ("rank", "svdvals", "pinv", "r", "frobenius"):
            wanted = np.zeros(function(a).shape)  # NumPy refuses some of them
        else:
            wanted = reference(a.numpy())
        for _, t in layouts(a):
            close(function(t), wanted, dtype, 10)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches_broadcast(dtype):
    tessera.manual_seed(2)
    for left, right in ((((), (4,))), ((4,), ()), ((2, 1), (3,)), ((1,), (0,)), ((5, 1, 2), (3, 1))):
        a = random_matrices(left, 3, 3, dtype, shift=5)
        b = random_matrices(right, 3, 2, dtype)
        wanted = np.linalg.solve(a.numpy(), b.numpy())
        close(L.solve(a, b), wanted, dtype)
        close(L.solve(a.mT, b.mT, left=False), wanted.swapaxes(-1, -2), dtype)
        LU, pivots = L.lu_factor(a)
        close(L.lu_solve(LU, pivots, b), wanted, dtype)
        lower = a.tril()
        close(L.solve_triangular(lower, b, upper=False), np.linalg.solve(lower.numpy(), b.numpy()), dtype)
        gram = a @ a.mH
        close(tessera.cholesky_solve(b, L.cholesky(gram)), np.linalg.solve(gram.numpy(), b.numpy()), dtype, 10)
        batch = wanted.shape[:-2]
        close(L.lstsq(a.expand(*batch, 3, 3), b.expand(*batch, 3, 2)).solution, wanted, dtype, 10)


PARTS = {
    "inv": L.inv,
    "lu": lambda a: L.lu_factor(a)[0],
    "qr": lambda a: L.qr(a)[1],
    "svdvals": L.svdvals,
    "eigvalsh": L.eigvalsh,
    "eigvals": L.eigvals,
    "cholesky": lambda a: L.cholesky(a @ a.mH + tessera.eye(a.shape[-1], dtype=a.dtype)),  # well beyond roundings
    "matrix_exp": L.matrix_exp,
    "det": L.det,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PARTS)
def test_a_batch_is_its_matrices(name, dtype):
    """Of any count: small matrices are worked on side by side."""
    tessera.manual_seed(3)
    for n in (1, 2, 3, 4, 5, 8, 16, 31, 33):
        for count in (1, 2, 7, 16, 33):
            a = random_matrices((count,), n, n, dtype, shift=3.0) / (3 + n**0.5)
            together = PARTS[name](a)
            for i in range(count):
                close(together[i], PARTS[name](a[i]).numpy(), dtype, 10)


# ---- the same bits at any number of threads

PROGRAM = """
import hashlib, sys
import tessera
L = tessera.linalg
tessera.set_num_threads(int(sys.argv[1]))
tessera.manual_seed(0)
def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.resolve_conj().numpy().tobytes())
    return h.hexdigest()
FUNCTIONS = {
    "lu": lambda a: L.lu_factor(a), "cholesky": lambda a: [L.cholesky(a @ a.mH + tessera.eye(a.shape[-1]))],
    "ldl": lambda a: L.ldl_factor(a + a.mT), "qr": lambda a: L.qr(a), "eigh": lambda a: L.eigh(a + a.mH),
    "svd": lambda a: L.svd(a), "eig": lambda a: L.eig(a), "inv": lambda a: [L.inv(a)],
    "solve": lambda a: [L.solve(a, a.mT)], "lstsq": lambda a: [L.lstsq(a, a.mT).solution],
    "triangular": lambda a: [L.solve_triangular(a + 9 * tessera.eye(a.shape[-1]), a, upper=True)],
    "exp": lambda a: [L.matrix_exp(a)], "pinv": lambda a: [L.pinv(a)], "det": lambda a: L.slogdet(a),
    "householder": lambda a: [L.householder_product(*tessera.geqrf(a))],
}
for dtype in (tessera.float32, tessera.float64, tessera.complex64, tessera.complex128):
    for shape in ((300, 300), (3, 70, 70), (100, 8, 8), (40, 20, 20)):
        a = tessera.randn(shape, dtype=dtype) / shape[-1] ** 0.5
        for name, function in FUNCTIONS.items():
            print(name, dtype, shape, digest(*function(a)))
"""


def test_the_same_bits_at_any_number_of_threads():
    def run(threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        out = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(threads)], capture_output=True, text=True, env=environment
        )
        assert out.returncode == 0, out.stderr
        return out.stdout.splitlines()

    one, two, three = run(1), run(2), run(3)
    assert len(one) == 15 * 16
    assert [a for a, b in zip(one, two) if a != b] == []
    assert one == three
