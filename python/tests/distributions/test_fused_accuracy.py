"""The operators of the distributions against SciPy and closed forms: over grids from the tails to the middle, with
parameters from tiny to huge.

Where SciPy has a number there is one, too. It cancels digits in places where the operators do not: DIGITS says how many
are compared, of the largest of the terms that make up a logarithm.
"""

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import tessera

D = tessera._C._distributions

LINE = np.array(
    [
        -1e200,
        -1e30,
        -1e10,
        -700.0,
        -40.0,
        -8.0,
        -1.5,
        -0.25,
        -1e-8,
        0.0,
        1e-300,
        1e-12,
        0.3,
        1.0,
        2.5,
        9.0,
        60.0,
        1e5,
        1e20,
        1e160,
    ]
)
POSITIVE = np.array(
    [1e-300, 1e-30, 1e-9, 1e-3, 0.2, 0.5, 0.999, 1.0, 1.7, 4.0, 15.5, 16.5, 33.0, 250.0, 1e4, 1e7, 1e12, 1e100]
)
MIDDLE = np.array([1e-6, 0.03, 0.5, 1.0, 2.0, 7.5, 20.0, 300.0, 1e5])
UNIT = np.array([0.0, 1e-300, 1e-20, 1e-6, 0.02, 0.25, 0.4999, 0.5, 0.7, 0.97, 1 - 1e-9, 1 - 2.0**-53, 1.0])
COUNTS = np.array([0.0, 1.0, 2.0, 7.0, 16.0, 17.0, 40.0, 1000.0, 1e6])
LOGITS = np.array([-740.0, -40.0, -3.0, -0.2, -1e-9, 0.0, 1e-5, 0.7, 5.0, 36.0, 700.0])
PROBS = np.array([1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-9])


def log_comb(n, k):
    return np.where((k == 0) | (k == n), 0.0, -np.log1p(n) - sp.betaln(k + 1, n - k + 1))


def log_logistic(x):
    return -np.logaddexp(0, -x)


def continuous_bernoulli(x, l):
    l_safe = np.where(l == 0, 1.0, l)
    positive = np.where(l > 0, l_safe, 0.0)
    constant = np.where(l == 0, 0.0, np.log(-np.expm1(-np.abs(l_safe)) / np.abs(l_safe)) + positive)
    return x * l - constant


def cauchy_quantile(p):
    low, high = -1 / np.tan(np.pi * p), 1 / np.tan(np.pi * (1 - p))
    return np.select([p < 0.25, p > 0.75], [low, high], np.tan(np.pi * (p - 0.5)))


# name: (reference, grids)
LOG_PROBS = {
    "normal": (lambda x, m, s: st.norm.logpdf(x, m, s), LINE, [-3.0, 0.0, 1e5], MIDDLE),
    "log_normal": (lambda x, m, s: st.norm.logpdf(np.log(x), m, s) - np.log(x), POSITIVE, [-3.0, 0.0, 40.0], MIDDLE),
    "laplace": (lambda x, m, s: -np.abs(x - m) / s - np.log(2 * s), LINE, [-3.0, 0.0, 1e5], MIDDLE),
    "cauchy": (
        lambda x, m, s: -np.log(np.pi * s) - 2 * np.log(np.hypot(1, (x - m) / s)),
        LINE,
        [-3.0, 0.0, 1e5],
        MIDDLE,
    ),
    "gumbel": (lambda x, m, s: st.gumbel_r.logpdf(x, m, s), LINE, [-3.0, 0.0, 1e5], MIDDLE),
    "half_normal": (lambda x, s: st.halfnorm.logpdf(x, 0, s), LINE, MIDDLE),
    "half_cauchy": (
        lambda x, s: np.where(x < 0, -np.inf, np.log(2 / np.pi / s) - 2 * np.log(np.hypot(1, x / s))),
        LINE,
        MIDDLE,
    ),
    "exponential": (lambda x, r: st.expon.logpdf(x, 0, 1 / r), LINE, MIDDLE),
    "gamma": (lambda x, a, b: st.gamma.logpdf(x * b, a) + np.log(b), POSITIVE, POSITIVE[:-1], MIDDLE),
    "inverse_gamma": (
        lambda x, a, b: sp.xlogy(a, b / x) - np.log(x) - b / x - sp.gammaln(a),
        POSITIVE[1:-1],
        POSITIVE[:-1],
        MIDDLE,
    ),
    "beta": (
        lambda x, a, b: sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - sp.betaln(a, b),
        UNIT,
        POSITIVE[:-1],
        POSITIVE[:-1],
    ),
    "kumaraswamy": (
        lambda x, a, b: np.log(a * b) + sp.xlogy(a - 1, x) + sp.xlogy(b - 1, -np.expm1(a * np.log(x))),
        UNIT[1:-1],
        MIDDLE,
        MIDDLE,
    ),
    "student_t": (
        lambda x, d, m, s: st.t.logpdf(x, d, m, s),
        LINE[1:-1],
        np.append(MIDDLE, [1e9, 1e20]),
        [0.0, 1e3],
        MIDDLE,
    ),
    "fisher_snedecor": (lambda x, d1, d2: st.f.logpdf(x, d1, d2), POSITIVE[1:-1], MIDDLE, MIDDLE),
    "uniform": (lambda x, a, b: st.uniform.logpdf(x, a, b - a), LINE, [-2.0, 0.0], [0.5, 1e6]),
    "pareto": (
        lambda x, m, a: np.where(x < m, -np.inf, np.log(a) + a * np.log(m / x) - np.log(x)),
        POSITIVE,
        MIDDLE,
        MIDDLE,
    ),
    "generalized_pareto": (
        lambda x, m, s, k: st.genpareto.logpdf(x, k, m, s),
        LINE,
        [0.0, -2.0],
        MIDDLE,
        [-2.0, -0.3, 0.0, 1e-3, 0.5, 3.0],
    ),
    "weibull": (lambda x, s, k: st.weibull_min.logpdf(x, k, 0, s), POSITIVE, MIDDLE, [0.1, 0.9, 1.0, 3.0, 20.0]),
    "von_mises": (lambda x, m, k: st.vonmises.logpdf(x, k, m), np.linspace(-3, 3, 13), [0.0, 0.7], MIDDLE),
    "bernoulli": (
        lambda x, l: np.where(x == 1, log_logistic(l), log_logistic(-l)),
        [0.0, 1.0],
        LOGITS,
    ),
    "continuous_bernoulli": (continuous_bernoulli, UNIT, LOGITS),
    "geometric": (lambda x, p: sp.xlog1py(x, -p) + np.log(p), COUNTS, PROBS),
    "binomial": (
        lambda k, n, l: np.where(
            k > n, -np.inf, log_comb(n, np.minimum(k, n)) + k * log_logistic(l) + (n - k) * log_logistic(-l)
        ),
        COUNTS,
        [1.0, 7.0, 40.0, 1e7],
        LOGITS,
    ),
    "negative_binomial": (
        lambda k, n, l: (
            np.where(k == 0, 0, -np.log(n + k) - sp.betaln(n, k + 1)) + k * log_logistic(l) + n * log_logistic(-l)
        ),
        COUNTS,
        MIDDLE,
        LOGITS,
    ),
    "poisson": (lambda k, r: sp.xlogy(k, r) - r - sp.gammaln(k + 1), COUNTS, np.append(MIDDLE, [1e-300, 1e7])),
    "logit_relaxed_bernoulli": (
        lambda x, t, l: np.log(t) - np.abs(l - t * x) - 2 * np.log1p(np.exp(-np.abs(l - t * x))),
        LINE[2:-2],
        MIDDLE,
        LOGITS,
    ),
}

FUNCTIONS = {
    "normal_cdf": (lambda x, m, s: st.norm.cdf(x, m, s), LINE, [-3.0, 0.0], MIDDLE),
    "normal_icdf": (lambda p, m, s: st.norm.ppf(p, m, s), UNIT, [0.0, 4.0], MIDDLE),
    "laplace_cdf": (lambda x, m, s: st.laplace.cdf(x, m, s), LINE, [-3.0, 0.0], MIDDLE),
    "laplace_icdf": (lambda p, m, s: st.laplace.ppf(p, m, s), UNIT, [0.0, 4.0], MIDDLE),
    "cauchy_cdf": (lambda x, m, s: np.arctan2(1, -(x - m) / s) / np.pi, LINE, [-3.0, 0.0], MIDDLE),
    "cauchy_icdf": (lambda p, m, s: m + s * cauchy_quantile(p), UNIT[3:-2], [0.0, 4.0], MIDDLE),
    "gumbel_cdf": (lambda x, m, s: st.gumbel_r.cdf(x, m, s), LINE, [-3.0, 0.0], MIDDLE),
    "gumbel_icdf": (lambda p, m, s: m - s * np.log(-np.log(p)), UNIT, [0.0, 4.0], MIDDLE),
    "exponential_cdf": (lambda x, r: st.expon.cdf(x, 0, 1 / r), LINE, MIDDLE),
    "exponential_icdf": (lambda p, r: -np.log1p(-p) / r, UNIT, MIDDLE),
    "weibull_cdf": (lambda x, s, k: st.weibull_min.cdf(x, k, 0, s), POSITIVE, MIDDLE, [0.1, 0.9, 1.0, 3.0]),
    "weibull_icdf": (lambda p, s, k: st.weibull_min.ppf(p, k, 0, s), UNIT, MIDDLE, [0.1, 0.9, 1.0, 3.0]),
    "generalized_pareto_cdf": (
        lambda x, m, s, k: st.genpareto.cdf(x, k, m, s),
        LINE,
        [0.0, -2.0],
        MIDDLE,
        [-2.0, -0.3, 0.0, 1e-3, 0.5, 3.0],
    ),
    "generalized_pareto_icdf": (
        lambda p, m, s, k: (
            m
            + s
            * np.where(k == 0, -np.log1p(-p), np.expm1(-np.where(k == 0, 1, k) * np.log1p(-p)) / np.where(k == 0, 1, k))
        ),
        UNIT,
        [0.0, -2.0],
        MIDDLE,
        [-2.0, -0.3, 0.0, 1e-3, 0.5, 3.0],
    ),
    "continuous_bernoulli_cdf": (
        lambda x, l: np.where(l == 0, x, np.expm1(x * l) / np.expm1(np.where(l == 0, 1, l))),
        UNIT,
        LOGITS,
    ),
    "continuous_bernoulli_icdf": (
        lambda p, l: np.where(l == 0, p, np.log1p(p * np.expm1(l)) / np.where(l == 0, 1, l)),
        UNIT,
        LOGITS[2:-1],
    ),
    "beta_entropy": (lambda a, b: st.beta.entropy(a, b), MIDDLE[1:], MIDDLE[1:]),
    "gamma_entropy": (lambda a, b: st.gamma.entropy(a) - np.log(b), MIDDLE, MIDDLE),
    "inverse_gamma_entropy": (
        lambda a, b: a + np.log(b) + sp.gammaln(a) - (1 + a) * sp.digamma(a),
        MIDDLE[:-1],
        MIDDLE,
    ),
    "student_t_entropy": (lambda d, s: st.t.entropy(d) + np.log(s), MIDDLE[1:], MIDDLE),
    "bernoulli_entropy": (lambda l: -sp.xlogy(sp.expit(l), sp.expit(l)) - sp.xlogy(sp.expit(-l), sp.expit(-l)), LOGITS),
    "geometric_entropy": (lambda p: -(sp.xlog1py(1 - p, -p) + sp.xlogy(p, p)) / p, PROBS[1:]),
    "normal_kl": (
        lambda m, s, n, t: np.log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - 0.5,
        [0.0, 1.5],
        MIDDLE[1:-2],
        [0.0, -20.0],
        MIDDLE[1:-2],
    ),
    "laplace_kl": (
        lambda m, s, n, t: np.log(t / s) + np.abs(m - n) / t + s / t * np.exp(-np.abs(m - n) / s) - 1,
        [0.0, 1.5],
        MIDDLE[1:-2],
        [0.0, -20.0],
        MIDDLE[1:-2],
    ),
    "cauchy_kl": (
        lambda m, s, n, t: np.log(((s + t) ** 2 + (m - n) ** 2) / (4 * s * t)),
        [0.0, 1.5],
        MIDDLE[1:-2],
        [0.0, -20.0],
        MIDDLE[1:-2],
    ),
    "gamma_kl": (
        lambda a, b, c, d: (
            c * np.log(b / d) + sp.gammaln(c) - sp.gammaln(a) + (a - c) * sp.digamma(a) + (d - b) * a / b
        ),
        MIDDLE[1:-2],
        MIDDLE[1:-2],
        MIDDLE[1:-2],
        MIDDLE[1:-2],
    ),
    "beta_kl": (
        lambda a, b, c, d: (
            sp.betaln(c, d)
            - sp.betaln(a, b)
            + (a - c) * sp.digamma(a)
            + (b - d) * sp.digamma(b)
            + (c + d - a - b) * sp.digamma(a + b)
        ),
        MIDDLE[1:-2],
        MIDDLE[1:-2],
        MIDDLE[1:-2],
        MIDDLE[1:-2],
    ),
    "exponential_kl": (lambda p, q: q / p - 1 - np.log(q / p), MIDDLE, MIDDLE),
    "poisson_kl": (lambda p, q: p * np.log(p / q) - p + q, MIDDLE, MIDDLE),
    "bernoulli_kl": (
        lambda p, q: (
            sp.expit(p) * (log_logistic(p) - log_logistic(q)) + sp.expit(-p) * (log_logistic(-p) - log_logistic(-q))
        ),
        LOGITS[1:-1],
        LOGITS,
    ),
}
CASES = {**{f"{k}_log_prob": v for k, v in LOG_PROBS.items()}, **FUNCTIONS}


def compare(got, want, size, relative):
    """Numbers where there are numbers, infinities where there are infinities."""
    known = ~np.isnan(want)
    assert known.sum() > known.size / 2, "the reference has hardly any number"
    assert not np.isnan(got[known]).any()
    infinite = known & np.isinf(want)
    np.testing.assert_array_equal(got[infinite], want[infinite])
    finite = known & ~infinite
    assert finite.any()
    difference = np.abs(got[finite] - want[finite])
    assert (difference <= relative * np.maximum(np.abs(want[finite]), size[finite])).all(), difference.max()


def evaluated(name, dtype):
    reference, *grids = CASES[name]
    limits = np.finfo(np.float32 if dtype == tessera.float32 else np.float64)
    grids = [np.asarray(g, dtype=np.float64) for g in grids]
    grids = [g[(g == 0) | (np.abs(g) >= limits.tiny) & (np.abs(g) <= limits.max)] for g in grids]
    arguments = [tessera.tensor(g).to(dtype) for g in grids]
    arguments = tessera.meshgrid(*arguments, indexing="ij")
    with np.errstate(all="ignore"):
        plain = [a.double().numpy() for a in arguments]
        want = np.asarray(reference(*plain))
    return getattr(D, f"_dist_{name}")(*arguments), want, plain


# Their references, and some of the operators, subtract logarithms as large as the parameters.
CANCELLING = {
    "gamma_log_prob",
    "inverse_gamma_log_prob",
    "beta_log_prob",
    "student_t_log_prob",
    "fisher_snedecor_log_prob",
    "binomial_log_prob",
    "negative_binomial_log_prob",
    "poisson_log_prob",
    "von_mises_log_prob",
    "beta_entropy",
    "inverse_gamma_entropy",
    "student_t_entropy",
    "normal_kl",
    "laplace_kl",
    "cauchy_kl",
    "gamma_kl",
    "beta_kl",
    "exponential_kl",
    "poisson_kl",
}


def sizes(name, plain):
    """Of the terms that a result is the sum of."""
    size = np.full(plain[0].shape, 700.0 if name.endswith("_log_prob") else 1.0 if "kl" in name else 0.01)
    return np.maximum.reduce([size] + [np.abs(p) * 40 for p in plain if name in CANCELLING])


@pytest.mark.parametrize("name", CASES)
def test_doubles_are_scipys(name):
    got, want, plain = evaluated(name, tessera.float64)
    assert got.dtype == tessera.float64
    compare(got.numpy(), want, sizes(name, plain), 1e-13 if name not in CANCELLING else 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_floats_are_rounded(name):
    """The arguments are rounded to float32 first, so that both compute from the same numbers."""
    got, want, plain = evaluated(name, tessera.float32)
    assert got.dtype == tessera.float32
    with np.errstate(over="ignore", under="ignore"):
        tiny = np.abs(want) < np.finfo(np.float32).tiny
        want = np.where(tiny, 0, want).astype(np.float32).astype(np.float64)
    least = 1.0 if name.endswith("_icdf") else 1e-2  # of a location and a product
    compare(got.double().numpy(), want, np.maximum(sizes(name, plain) * 1e-6, least), 1e-6)


def test_large_parameters_lose_no_digits():
    """At their modes, by the first terms of Stirling's series."""
    a = np.array([20.0, 1e3, 1e6, 1e9, 1e12, 1e15])
    x, one = tessera.tensor(a), tessera.tensor(1.0, dtype=tessera.float64)
    want = -0.5 * np.log(2 * np.pi * a) - 1 / (12 * a) + 1 / (360 * a**3)
    for got in (
        D._dist_gamma_log_prob(x, x, one),
        D._dist_gamma_log_prob(one, x, x) - x.log(),
        D._dist_inverse_gamma_log_prob(one, x, x) - x.log(),
        D._dist_poisson_log_prob(x, x),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)
    normal = D._dist_normal_log_prob(one, one * 0, one)
    for df in (1e15, 1e30, np.inf):
        t = D._dist_student_t_log_prob(one, one * df, one * 0, one)
        assert abs(float(t) - float(normal)) < 1e-13


def test_divergences_of_near_distributions():
    """They are half a square of the distance times what is known as information, where plain formulas cancel."""
    e, one, zero = (tessera.tensor(v, dtype=tessera.float64) for v in (1e-9, 1.0, 0.0))
    near = one + e
    step = float(near) - 1
    for got, information in (
        (D._dist_normal_kl(zero, near, zero, one), 2),
        (D._dist_laplace_kl(zero, near, zero, one), 1),
        (D._dist_cauchy_kl(zero, near, zero, one), 0.5),
        (D._dist_exponential_kl(near, one), 1),
        (D._dist_poisson_kl(near, one), 1),
    ):
        assert abs(float(got) / (information * step**2 / 2) - 1) < 1e-6


@pytest.mark.parametrize("name", sorted(name for name, (_, *grids) in CASES.items() if len(grids) > 1))
def test_one_distribution_of_many_values(name):
    """What depends on the parameters is computed once a block: the results are those of single calls."""
    _, *grids = CASES[name]
    op = getattr(D, f"_dist_{name}")
    for dtype in (tessera.float64, tessera.float32):
        values = tessera.tensor(np.resize(np.asarray(grids[0], dtype=np.float64), 203)).to(dtype)
        rest = [tessera.tensor(float(np.asarray(g)[len(g) // 2])).to(dtype) for g in grids[1:]]
        tessera.testing.assert_close(
            op(values, *rest),
            op(values, *[r.expand(203).clone() for r in rest]),
            rtol=0,
            atol=0,
            equal_nan=True,
        )
        mixed = [tessera.where(tessera.arange(203) % 5 < 2, r, r * 1.5) for r in rest]
        singly = tessera.stack([op(*one) for one in zip(values, *mixed)])
        tessera.testing.assert_close(op(values, *mixed), singly, rtol=0, atol=0, equal_nan=True)


def test_nan_is_nan():
    nan, some = tessera.tensor(float("nan")), tessera.tensor(0.4)
    for name, (_, *grids) in CASES.items():
        for i in range(len(grids)):
            arguments = [nan if k == i else some for k in range(len(grids))]
            assert getattr(D, f"_dist_{name}")(*arguments).isnan(), (name, i)


def test_all_within():
    x = tessera.tensor([0.0, 0.5, 1.0])
    assert D._dist_all_within(x, 0.0, 1.0)
    assert not D._dist_all_within(x, 0.0, 1.0, 1)
    assert not D._dist_all_within(x, 0.0, 1.0, 2)
    assert not D._dist_all_within(x, 0.0, 1.0, 4)
    assert D._dist_all_within(x.to(tessera.int64), 0.0, 1.0, 4)
    assert D._dist_all_within(x[1:2], 0.0, 1.0, 3)
    assert not D._dist_all_within(tessera.tensor([[0.1, float("nan")]]).T, -float("inf"), float("inf"))
    assert D._dist_all_within(tessera.zeros(0), 1.0, 2.0)
    with pytest.raises(RuntimeError, match="kind from 0 to 7"):
        D._dist_all_within(x, 0.0, 1.0, 8)
    with pytest.raises(RuntimeError, match="real numbers"):
        D._dist_all_within(x + 1j, 0.0, 1.0)


@pytest.mark.parametrize(("dtype", "relative"), [(tessera.float64, 1e-4), (tessera.float32, 1e-4)])
def test_beta_numbers_move_with_their_concentration(dtype, relative):
    """Against differences of SciPy's distribution function, at both sides of the mean, and where there is no number."""
    grids = [[1e-4, 0.03, 0.3, 0.5, 0.9, 0.999], [0.05, 0.7, 1.0, 6.0, 80.0], [0.1, 1.0, 3.0, 40.0]]
    x, a, b = (g.to(dtype) for g in tessera.meshgrid(*map(tessera.tensor, grids), indexing="ij"))
    got = tessera._dirichlet_grad(x, a, a + b).double().numpy()
    x, a, b = (g.double().numpy() for g in (x, a, b))
    step = 1e-5 * a
    moved = -(sp.betainc(a + step, b, x) - sp.betainc(a - step, b, x)) / (2 * step)
    with np.errstate(all="ignore"):
        want = moved / st.beta.pdf(x, a, b) / (1 - x)
    told = (sp.betainc(a, b, x) > 1e-8) & (sp.betaincc(a, b, x) > 1e-5)  # differences have digits
    assert told.sum() > told.size / 3
    np.testing.assert_allclose(got[told], want[told], rtol=relative)
    assert np.isfinite(got).all() and (got >= 0).all()
    ends = tessera._dirichlet_grad(
        *(tessera.tensor(v) for v in ([0.0, 1.0, 0.5, 2.0], [1.0] * 4, [2.0, 2.0, 1.0, 2.0]))
    )
    assert ends[:2].tolist() == [0, 0] and ends[2:].isnan().all()


@pytest.mark.parametrize("above", [0.1, 0.9, 1.3, 2.0, 6.0])
@pytest.mark.parametrize("concentration", [0.01, 0.3, 4.5, 70.0, 900.0, 3e4])
def test_gamma_numbers_move_with_their_concentration(concentration, above):
    """-(dF/da) / f by differences of the inverse of what is left above x, also where hardly anything is."""
    x = concentration * above + (12 if concentration < 1 and above > 1 else 0)
    got = tessera._standard_gamma_grad(tessera.tensor([concentration] * 9).double(), tessera.tensor([x] * 9).double())
    left, below = sp.gammaincc(concentration, x), sp.gammainc(concentration, x)
    step = 1e-5 * concentration
    inverse, place = (sp.gammainccinv, left) if left < below else (sp.gammaincinv, below)
    if place < 1e-290:
        assert tessera.isfinite(got).all() and (got > 0).all()
    else:
        want = (inverse(concentration + step, place) - inverse(concentration - step, place)) / (2 * step)
        tessera.testing.assert_close(got, tessera.full_like(got, float(want)), rtol=1e-5, atol=1e-12)
