"""torch.special against SciPy: grids over the whole range, limits, dtypes, orders as numbers, derivatives."""

import math

import numpy as np
import pytest
import scipy.special as sp

import tessera

S = tessera.special
INF, NAN = math.inf, math.nan


def doubles(values):
    return tessera.tensor(np.asarray(values, dtype=np.float64))


def grid(low, high, small=1e-12):
    """Numbers of [low, high]: evenly spaced, and by powers towards 0."""
    even = np.linspace(low, high, 801)
    powers = np.geomspace(small, max(abs(low), abs(high)), 200)
    both = np.concatenate([even, powers, -powers])
    return both[(both >= low) & (both <= high)]


# name: (SciPy's, lowest, highest argument, relative error allowed)
UNARY = {
    "airy_ai": (lambda x: sp.airy(x)[0], -20, 20, 1e-13),
    "bessel_j0": (sp.j0, -300, 300, 1e-13),
    "bessel_j1": (sp.j1, -300, 300, 1e-13),
    "bessel_y0": (sp.y0, 0, 300, 1e-13),
    "bessel_y1": (sp.y1, 0, 300, 1e-13),
    "erfcx": (sp.erfcx, -26, 1e4, 1e-13),
    "i0": (sp.i0, -700, 700, 1e-13),
    "i0e": (sp.i0e, -1e4, 1e4, 1e-14),
    "i1": (sp.i1, -700, 700, 1e-13),
    "i1e": (sp.i1e, -1e4, 1e4, 1e-14),
    "log_ndtr": (sp.log_ndtr, -1e4, 8, 1e-12),
    "modified_bessel_i0": (sp.i0, -700, 700, 1e-13),
    "modified_bessel_i1": (sp.i1, -700, 700, 1e-13),
    "modified_bessel_k0": (sp.k0, 0, 700, 1e-13),
    "modified_bessel_k1": (sp.k1, 0, 700, 1e-13),
    "scaled_modified_bessel_k0": (sp.k0e, 0, 1e4, 1e-13),
    "scaled_modified_bessel_k1": (sp.k1e, 0, 1e4, 1e-13),
    "ndtr": (sp.ndtr, -37, 10, 1e-12),
    "ndtri": (sp.ndtri, 0, 1, 1e-13),
    "spherical_bessel_j0": (lambda x: sp.spherical_jn(0, np.abs(x)), -300, 300, 1e-13),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [tessera.float64, tessera.float32])
def test_unary_is_scipys(name, dtype):
    reference, low, high, relative = UNARY[name]
    if dtype == tessera.float32 and high == 700:
        low, high = max(low, -85), 85
    x = doubles(grid(low, high)).to(dtype)
    got = getattr(S, name)(x)
    assert got.dtype == dtype
    want = reference(x.double().numpy())
    loose = relative if dtype == tessera.float64 else 3e-7
    # Zeros of oscillating functions: an error beside their amplitude.
    near_zero = 4e-14 if "bessel_" in name or name == "airy_ai" else 1e-300
    if dtype == tessera.float32:
        want, near_zero = want.astype(np.float32).astype(np.float64), 1e-7 if near_zero > 1e-300 else 1e-37
    np.testing.assert_allclose(got.double().numpy(), want, rtol=loose, atol=near_zero)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("airy_ai", [NAN, 200.0], [NAN, 0.0]),
        ("bessel_j0", [0.0, NAN, 1e300], [1.0, NAN, None]),
        ("bessel_j1", [0.0, -1.0, 1.0], [0.0, -0.44005058574493355, 0.44005058574493355]),
        ("bessel_y0", [0.0, -1.0, NAN, 5e-324], [-INF, NAN, NAN, -473.9990734230043]),
        ("bessel_y1", [0.0, -1.0, NAN, 5e-324], [-INF, NAN, NAN, -INF]),
        ("erfcx", [-30.0, -INF, INF, 0.0, NAN, 1e300], [INF, INF, 0.0, 1.0, NAN, 5.641895835477563e-301]),
        ("i0e", [0.0, INF, -INF, NAN], [1.0, 0.0, 0.0, NAN]),
        ("i1e", [0.0, INF, NAN], [0.0, 0.0, NAN]),
        ("log_ndtr", [0.0, -INF, INF, NAN, -1e10], [math.log(0.5), -INF, 0.0, NAN, -5e19]),
        ("ndtr", [0.0, -INF, INF, NAN], [0.5, 0.0, 1.0, NAN]),
        ("ndtri", [0.0, 1.0, 0.5, -0.1, 1.1, NAN], [-INF, INF, 0.0, NAN, NAN, NAN]),
        ("modified_bessel_i1", [0.0, 800.0, -800.0], [0.0, INF, -INF]),
        ("modified_bessel_k0", [0.0, -1.0, INF, 800.0, NAN], [INF, NAN, 0.0, 0.0, NAN]),
        ("modified_bessel_k1", [0.0, -1.0, INF, 800.0, NAN], [INF, NAN, 0.0, 0.0, NAN]),
        ("scaled_modified_bessel_k0", [0.0, -1.0, INF, NAN], [INF, NAN, 0.0, NAN]),
        ("scaled_modified_bessel_k1", [0.0, -1.0, INF, NAN], [INF, NAN, 0.0, NAN]),
        ("spherical_bessel_j0", [0.0, INF, -INF, NAN], [1.0, 0.0, 0.0, NAN]),
    ],
)
def test_limits(name, arguments, wanted):
    got = getattr(S, name)(doubles(arguments)).tolist()
    for g, w in zip(got, wanted, strict=True):
        if w is None:
            assert math.isfinite(g)
        else:
            assert g == pytest.approx(w, rel=1e-14, nan_ok=True)


def test_zeta_is_scipys():
    s, q = np.array([1.001, 1.5, 2.0, 7.25, 30.0, 100.0])[:, None], np.array([1e-3, 0.5, 1.0, 9.7, 33.0, 1e4, 1e8])
    np.testing.assert_allclose(S.zeta(doubles(s), doubles(q)).numpy(), sp.zeta(s, q), rtol=2e-13)
    assert S.zeta(2.0, doubles([1.0])).item() == pytest.approx(math.pi**2 / 6, rel=1e-15)
    assert S.zeta(doubles([2.0]), 1.0).item() == pytest.approx(math.pi**2 / 6, rel=1e-15)


def test_zeta_at_poles_and_below_zero():
    got = S.zeta(
        doubles([1.0, 0.5, 2.0, 2.0, 2.5, 2.0, 3.0]), doubles([3.0, 1.0, 0.0, -1.0, -1.5, -1.5, -2.5])
    ).tolist()
    assert got[0] == INF and math.isnan(got[1]) and got[2] == got[3] == INF and math.isnan(got[4])
    # The first terms are those below 0.
    assert got[5] == pytest.approx(1.5**-2 + 0.5**-2 + sp.zeta(2, 0.5), rel=1e-14)
    assert got[6] == pytest.approx(-(2.5**-3) - 1.5**-3 - 0.5**-3 + sp.zeta(3, 0.5), rel=1e-12)


@pytest.mark.parametrize(("name", "reference"), [("gammainc", sp.gammainc), ("gammaincc", sp.gammaincc)])
def test_incomplete_gamma_is_scipys(name, reference):
    a = np.array([1e-8, 0.1, 0.5, 1.0, 2.5, 7.9, 8.0, 19.0, 21.0, 150.0, 1e4])[:, None]
    ratio = np.array([1e-6, 0.1, 0.7, 0.95, 1.0, 1.04, 1.3, 2.0, 5.0])
    x = np.concatenate([a * ratio, np.broadcast_to([0.01, 0.5, 1.05, 3.0], (len(a), 4))], axis=1)
    np.testing.assert_allclose(
        getattr(S, name)(doubles(a), doubles(x)).numpy(), reference(a, x), rtol=2e-12, atol=1e-290
    )


def test_incomplete_gamma_at_the_borders():
    a, x = [0.0, 1.0, 1.0, INF, -1.0, 1.0, 0.0, INF, NAN], [1.0, 0.0, INF, 1.0, 1.0, -1.0, 0.0, INF, 1.0]
    lower = [1.0, 0.0, 1.0, 0.0, NAN, NAN, NAN, NAN, NAN]
    np.testing.assert_array_equal(tessera.igamma(doubles(a), doubles(x)).numpy(), lower)
    np.testing.assert_array_equal(tessera.igammac(doubles(a), doubles(x)).numpy(), 1 - np.array(lower))
    with pytest.raises(NotImplementedError):
        tessera.igamma(tessera.tensor([1]), tessera.tensor([1]))


POLYNOMIALS = {
    "chebyshev_polynomial_t": sp.eval_chebyt,
    "chebyshev_polynomial_u": sp.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: np.cos((n + 0.5) * np.arccos(x)) / np.cos(np.arccos(x) / 2),
    "chebyshev_polynomial_w": lambda n, x: np.sin((n + 0.5) * np.arccos(x)) / np.sin(np.arccos(x) / 2),
    "shifted_chebyshev_polynomial_t": sp.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": sp.eval_sh_chebyu,
    "hermite_polynomial_h": sp.eval_hermite,
    "hermite_polynomial_he": sp.eval_hermitenorm,
    "laguerre_polynomial_l": sp.eval_laguerre,
    "legendre_polynomial_p": sp.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_scipys(name):
    x, n = np.linspace(0.01, 0.99, 50)[:, None], np.arange(0, 90, 3)
    want = POLYNOMIALS[name](n, x)
    got = getattr(S, name)(doubles(x), tessera.tensor(n)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11 * np.abs(want).max(axis=0).min())


@pytest.mark.parametrize(
    "name", sorted({*POLYNOMIALS, "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w"})
)
def test_orders_are_rounded_towards_zero_and_negative_ones_give_zero(name):
    f = getattr(S, name)
    x = doubles([0.3, 0.3, 0.3, 0.3])
    got = f(x, doubles([2.7, 2.0, -0.5, -1.0]))
    assert got[0] == got[1] and got[2] == 1 and got[3] == 0
    assert f(0.3, doubles([2.0])).item() == f(x[:1], 2).item() == got[0].item()
    assert f(tessera.tensor([2]), tessera.tensor([3])).dtype == tessera.float32
    with pytest.raises(TypeError):
        f(0.3, 2)


def test_chebyshev_at_one_and_beyond():
    n = tessera.tensor([5, 4, 101, 1000000])
    ones = doubles([1.0] * 4)
    assert S.chebyshev_polynomial_t(-ones, n).tolist() == [-1, 1, -1, 1]
    assert S.chebyshev_polynomial_u(ones, n).tolist() == [6, 5, 102, 1000001]
    assert S.chebyshev_polynomial_v(-ones, n).tolist() == [-11, 9, -203, 2000001]
    assert S.chebyshev_polynomial_w(-ones, n).tolist() == [-1, 1, -1, 1]
    wanted = math.cosh(100 * math.acosh(1.01))
    assert S.chebyshev_polynomial_t(doubles([1.01]), 100).item() == pytest.approx(wanted, rel=1e-12)


def test_orders_beyond_any_loop_come_back():
    n = doubles([65536.0, 65537.0, 1e15, 9e18, INF])
    for name in [*POLYNOMIALS]:
        assert getattr(S, name)(doubles([0.3] * 5), n)[-1] == 0
    near, far = S.legendre_polynomial_p(doubles([0.3, 0.3]), doubles([65536.0, 65540.0])).tolist()
    angle = math.acos(0.3)
    for n, got in ((65536, near), (65540, far)):
        wanted = math.sqrt(2 / (math.pi * n * math.sin(angle))) * math.cos((n + 0.5) * angle - math.pi / 4)
        assert got == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_multigammaln_is_scipys(p):
    x = np.array([2.1, 3.5, 9.0])
    want = [sp.multigammaln(v, p) for v in x]
    np.testing.assert_allclose(S.multigammaln(doubles(x), p).numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(doubles(x).mvlgamma_(p).numpy(), want, rtol=1e-13)
    assert tessera.mvlgamma(tessera.tensor([3]), p).dtype == tessera.float32
    with pytest.raises(RuntimeError, match="greater than or equal to 1"):
        tessera.mvlgamma(doubles(x), 0)


def test_results_without_derivatives_have_no_history():
    x = doubles([0.5]).requires_grad_()
    for name in ("bessel_j0", "airy_ai", "modified_bessel_k1", "spherical_bessel_j0"):
        assert getattr(S, name)(x).grad_fn is None
    assert S.legendre_polynomial_p(x, 3).grad_fn is None


def test_zeta_and_igamma_refuse_the_first_arguments_derivative():
    s, q = doubles([2.0]).requires_grad_(), doubles([3.0]).requires_grad_()
    with pytest.raises(NotImplementedError):
        S.zeta(s, q.detach()).backward()
    with pytest.raises(NotImplementedError):
        tessera.igamma(s, q.detach()).backward()
    S.zeta(s.detach(), q).backward()
    assert q.grad.item() == pytest.approx(-2 * sp.zeta(3, 3), rel=1e-14)


@pytest.mark.parametrize("name", ["i0e", "i1e", "ndtr"])
def test_half_types_where_documented(name):
    for dtype in (tessera.float16, tessera.bfloat16):
        assert getattr(S, name)(tessera.ones(2, dtype=dtype)).dtype == dtype
    with pytest.raises((RuntimeError, NotImplementedError)):
        S.erfcx(tessera.ones(2, dtype=tessera.float16))


@pytest.mark.parametrize("name", ["erfcx", "ndtri", "log_ndtr", "ndtr", "i0e", "i1e"])
def test_second_derivatives(name):
    x = doubles([0.2, 0.45, 0.8]).requires_grad_()
    assert tessera.autograd.gradcheck(getattr(S, name), (x,))
    assert tessera.autograd.gradgradcheck(getattr(S, name), (x,))


def test_slopes_of_i1e_at_zero():
    x = doubles([0.0]).requires_grad_()
    S.i1e(x).sum().backward()
    assert x.grad.item() == pytest.approx(0.5, rel=1e-15)


@pytest.mark.parametrize("dtype", [tessera.float32, tessera.float64])
def test_slope_of_sinc_near_zero(dtype):
    eps = tessera.finfo(dtype).eps
    points = [0.0, 1e-12, 1e-6, 1e-3, -1e-2, 0.1, -0.126, 0.128, 0.3]
    x = tessera.tensor(points, dtype=dtype, requires_grad=True)
    (slope,) = tessera.autograd.grad(tessera.special.sinc(x).sum(), x, create_graph=True)
    (curve,) = tessera.autograd.grad(slope.sum(), x)
    for point, first, second in zip(x.tolist(), slope.tolist(), curve.tolist()):
        # The mean of s cos(x s) and that of s^2 over s from 0 to pi, by Gauss's points: both are smooth.
        nodes, weights = np.polynomial.legendre.leggauss(30)
        s, w = (nodes + 1) * np.pi / 2, weights / 2
        assert first == pytest.approx(-(w * s * np.sin(point * s)).sum(), rel=30 * eps, abs=1e-30)
        assert second == pytest.approx(-(w * s * s * np.cos(point * s)).sum(), rel=300 * eps)
    z = tessera.tensor([0.01 + 0.02j, 0.1 - 0.2j, 0j], dtype=tessera.complex128, requires_grad=True)
    assert tessera.autograd.gradcheck(tessera.special.sinc, z)
    assert tessera.autograd.gradgradcheck(tessera.special.sinc, z)


def test_digamma_is_infinite_next_to_its_pole():
    x = tessera.tensor([5e-324, 1e-310, -1e-310, 0.0, -0.0, 6e-309], dtype=tessera.float64)
    inf = tessera.inf
    assert tessera.special.digamma(x).tolist()[:5] == [-inf, -inf, inf, -inf, inf]
    assert tessera.special.digamma(x)[5].isfinite()
