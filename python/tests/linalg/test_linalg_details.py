"""Linear algebra under transforms, with out= and in forward mode: what values alone do not show."""

import pytest
import tessera
import tessera.autograd.forward_ad as fw
from tessera import linalg


def tangent(function, x, t):
    with fw.dual_level():
        return fw.unpack_dual(function(fw.make_dual(x, t))).tangent


@pytest.fixture
def positive():
    tessera.manual_seed(3)
    x = tessera.randn(4, 4, dtype=tessera.complex128)
    return x @ x.mH + tessera.eye(4)


def half(x):
    return (x.tril() + x.tril(-1)) / 2


@pytest.mark.parametrize("upper", [False, True])
def test_tangents_of_any_matrix_go_through_cholesky_as_they_are(positive, upper):
    """Not by the Hermitian part, which is all that a Hermitian matrix can change by: jacfwd takes others, too."""
    t, factor = tessera.randn(4, 4, dtype=tessera.complex128), linalg.cholesky(positive)
    found = tangent(lambda a: linalg.cholesky(a, upper=upper), positive, t)
    expected = factor @ half(linalg.inv(factor) @ t @ linalg.inv(factor).mH)
    tessera.testing.assert_close(found, expected.mH if upper else expected)


def test_tangents_of_any_matrix_go_through_eigh_as_they_are(positive):
    t = tessera.randn(4, 4, dtype=tessera.complex128)
    _, vectors = linalg.eigh(positive)
    inner = vectors.mH @ t @ vectors
    tessera.testing.assert_close(tangent(linalg.eigvalsh, positive, t), inner.diagonal().real)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("name", ["cholesky_solve", "cholesky_inverse"])
def test_both_modes_count_the_whole_factor(positive, upper, name):
    factor, t = linalg.cholesky(positive.real, upper=upper), tessera.randn(4, 4).double()
    b, w = tessera.randn(4, 4).double(), tessera.randn(4, 4).double()

    def function(f):
        if name == "cholesky_inverse":
            return tessera.cholesky_inverse(f, upper)
        return tessera.cholesky_solve(b, f, upper)

    (back,) = tessera.func.vjp(function, factor)[1](w)
    tessera.testing.assert_close((back * t).sum(), (w * tangent(function, factor, t)).sum())


def test_info_of_a_matrix_that_has_no_batch():
    """The matrix is the same for all of a batch of right hand sides, which have dimensions of their own."""
    a, b = tessera.eye(5) * 2, tessera.ones(2, 3, 4, 5)
    x, info = tessera.vmap(lambda b: linalg.solve_ex(a, b, left=False))(b)
    assert info.shape == (2,) and tessera.equal(x, b / 2)
    rows, info = tessera.vmap(lambda a: linalg.solve_ex(a, b[0], left=False))(tessera.stack([a, a * 2]))
    assert info.shape == (2,) and tessera.equal(rows[1], b[0] / 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, out: tessera.cholesky(a, out=out),
        lambda a, out: tessera.cholesky_solve(a, a, out=out),
        lambda a, out: tessera.cholesky_inverse(a, out=out),
        lambda a, out: linalg.tensorinv(a, ind=1, out=out),
        lambda a, out: linalg.tensorsolve(a, a[0], out=out),
    ],
)
def test_out_of_another_dtype(call):
    a = tessera.eye(4, dtype=tessera.float64) * 4
    expected = call(a, tessera.empty(0, dtype=tessera.float64))
    for dtype in (tessera.float32, tessera.complex128):
        assert tessera.equal(call(a, tessera.empty(0, dtype=dtype)), expected.to(dtype))
    with pytest.raises(RuntimeError, match="dtype|type"):
        call(a, tessera.empty(0, dtype=tessera.int64))


def test_ormqr_wants_as_many_reflections_as_there_are():
    with pytest.raises(RuntimeError, match=r"tau.shape\[-1\] must be equal to min"):
        tessera.ormqr(tessera.ones(3, 2), tessera.ones(1), tessera.ones(3, 2))


def test_distances_of_points_without_coordinates():
    for p in (0.0, 1.0, 2.0, float("inf")):
        assert tessera.equal(tessera.pdist(tessera.ones(3, 0), p), tessera.zeros(3))


def test_trapezoids_of_a_number():
    y = tessera.tensor(1.0)
    for call in (tessera.trapz, tessera.trapezoid, tessera.cumulative_trapezoid):
        with pytest.raises(IndexError, match="no dimensions"):
            call(y)
        with pytest.raises(IndexError, match="no dimensions"):
            call(y, y)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tessera.eq(x, 1, out=tessera.empty(0, dtype=tessera.bool)),
        lambda x: tessera.lt(x, x, out=tessera.empty(0, dtype=tessera.bool)),
        lambda x: tessera.argmax(x, out=tessera.empty(0, dtype=tessera.int64)),
        lambda x: tessera.special.bessel_j0(x, out=tessera.empty(0)),
        lambda x: tessera.special.legendre_polynomial_p(x, 2, out=tessera.empty(0)),
        lambda x: linalg.matrix_rank(x.outer(x.detach()), out=tessera.empty(0, dtype=tessera.int64)),
    ],
)
def test_what_has_no_gradient_goes_to_out_whatever_requires_one(call):
    x = tessera.tensor([0.5, 1.0, 2.0], requires_grad=True)
    out = call(x)
    assert not out.requires_grad and tessera.equal(out, call(x.detach()))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        tessera.sin(x, out=tessera.empty(0))


def test_a_batch_of_windows_for_istft():
    tessera.manual_seed(0)
    windows, x = tessera.rand(2, 8) + 0.5, tessera.randn(20)
    spectra = [tessera.stft(x, 8, 2, window=w, return_complex=True) for w in windows]

    def back(s, w):
        return tessera.istft(s, 8, 2, window=w)

    found = tessera.vmap(back)(tessera.stack(spectra), windows)
    tessera.testing.assert_close(found, tessera.stack([back(s, w) for s, w in zip(spectra, windows)]))


OLDER = {
    "cholesky": lambda a: tessera.cholesky(a),
    "qr": lambda a: a.qr(),
    "lu": lambda a: tessera.lu(a),
    "triangular_solve": lambda a: tessera.triangular_solve(a, a),
    "lu_solve": lambda a: tessera.lu_solve(a, *linalg.lu_factor(a)),
    "chain_matmul": lambda a: tessera.chain_matmul(a, a),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_names_say_so(name):
    was = tessera.is_warn_always_enabled()
    tessera.set_warn_always(True)  # else once in a process
    try:
        with pytest.warns(UserWarning, match=rf"torch\.{name} is deprecated"):
            OLDER[name](tessera.eye(3))
    finally:
        tessera.set_warn_always(was)


def test_covariances_of_too_few_observations():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        tessera.cov(tessera.ones(3, 1))


@pytest.mark.parametrize(
    "call,error,match",
    [
        (lambda: linalg.lu_factor(tessera.zeros(2, 2)), linalg.LinAlgError, r"U\[1,1\] is zero .* division by zero"),
        (lambda: linalg.eigh(tessera.eye(2).long()), NotImplementedError, "\"linalg.eigh\" not implemented for 'Long'"),
        (lambda: tessera.geqrf(tessera.eye(2).int()), NotImplementedError, "not implemented for 'Int'"),
        (lambda: linalg.cond(tessera.eye(2), 3), RuntimeError, "invalid norm type"),
        (lambda: tessera.fft.fftfreq(4, dtype=tessera.complex64), NotImplementedError, "not implemented for 'Complex"),
        (
            lambda: linalg.solve(tessera.eye(2), tessera.eye(2).double()),
            RuntimeError,
            "A of type float32 and B of type",
        ),
    ],
)
def test_errors_have_the_words_that_programs_look_for(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("order", [2, 3, 0.5, -1, float("inf")])
def test_the_norm_of_one_number_is_its_absolute_value(order):
    x = tessera.tensor([[-1e300], [1e-200], [-0.3]], dtype=tessera.float64)
    assert tessera.equal(tessera.linalg.vector_norm(x, order, dim=1), x[:, 0].abs())
    assert tessera.equal(tessera.linalg.vector_norm(x[0], order), x[0, 0].abs())
    z = tessera.tensor([3e200 + 4e200j], dtype=tessera.complex128)
    assert tessera.linalg.vector_norm(z, order).item() == z.abs().item()
    assert tessera.linalg.vector_norm(x, 0, dim=1).tolist() == [1, 1, 1]
