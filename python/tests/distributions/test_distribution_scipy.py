"""Densities, distribution functions, moments and entropies against SciPy, over grids with tiny and huge parameters and
values far in the tails.
"""

import itertools
import math

import numpy as np
import pytest
import tessera
import tessera.distributions as D
from scipy import stats

F = tessera.float64
LOCS, SCALES = (-1e6, 0.0, 3.0), (1e-8, 0.7, 1.0, 1e8)
SHAPES = (1e-3, 0.3, 1.0, 2.5, 40.0, 1e4)
PROBS = (1e-9, 0.2, 0.5, 0.999)
QUANTILES = np.array([1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-6])

# name -> (distribution of parameters, SciPy's of the same, grid of parameters, moments are compared)
CONTINUOUS = {
    "Normal": (D.Normal, lambda m, s: stats.norm(m, s), (LOCS, SCALES)),
    "Laplace": (D.Laplace, lambda m, s: stats.laplace(m, s), (LOCS, SCALES)),
    "Cauchy": (D.Cauchy, lambda m, s: stats.cauchy(m, s), (LOCS, SCALES)),
    "Gumbel": (D.Gumbel, lambda m, s: stats.gumbel_r(m, s), ((0.0, 3.0), SCALES)),
    "StudentT": (D.StudentT, lambda n, m, s: stats.t(n, m, s), ((0.5, 1.5, 3.0, 200.0), (0.0, 3.0), SCALES)),
    "HalfNormal": (D.HalfNormal, lambda s: stats.halfnorm(scale=s), (SCALES,)),
    "HalfCauchy": (D.HalfCauchy, lambda s: stats.halfcauchy(scale=s), (SCALES,)),
    "LogNormal": (D.LogNormal, lambda m, s: stats.lognorm(s, scale=math.exp(m)), ((-5.0, 0.0, 5.0), (1e-3, 0.7, 5.0))),
    "Exponential": (D.Exponential, lambda r: stats.expon(scale=1 / r), (SCALES,)),
    "Gamma": (D.Gamma, lambda a, r: stats.gamma(a, scale=1 / r), (SHAPES[1:], SCALES)),
    "Chi2": (D.Chi2, lambda n: stats.chi2(n), (SHAPES[1:],)),
    "InverseGamma": (D.InverseGamma, lambda a, r: stats.invgamma(a, scale=r), (SHAPES[1:], (1e-3, 1.0, 1e3))),
    "Beta": (D.Beta, stats.beta, (SHAPES[1:], SHAPES[1:])),
    "FisherSnedecor": (D.FisherSnedecor, stats.f, ((0.5, 3.0, 50.0), (0.5, 5.0, 50.0))),
    "Uniform": (lambda m, s: D.Uniform(m, m + s), stats.uniform, ((0.0, 3.0), (0.7, 1.0, 1e8))),
    "Pareto": (D.Pareto, lambda s, a: stats.pareto(a, scale=s), (SCALES, (0.5, 1.5, 3.0, 50.0))),
    "Weibull": (D.Weibull, lambda s, k: stats.weibull_min(k, scale=s), (SCALES, (0.3, 1.0, 2.5, 40.0))),
    "GeneralizedPareto": (
        D.GeneralizedPareto,
        lambda m, s, c: stats.genpareto(c, m, s),
        ((0.0, 3.0), (0.1, 1.0, 1e3), (-0.7, -0.2, 0.0, 0.3, 0.7, 2.0)),
    ),
    "VonMises": (D.VonMises, lambda m, k: stats.vonmises(k, loc=m), ((0.0, 0.5), (1e-6, 1.0, 30.0, 1e4))),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli, stats.bernoulli, (PROBS,), (0, 1)),
    "Binomial": (D.Binomial, stats.binom, ((1.0, 7.0, 1000.0), PROBS), (0, 1)),
    "Geometric": (D.Geometric, lambda p: stats.geom(p, loc=-1), (PROBS,), (0, 1, 5, 1000)),
    "NegativeBinomial": (
        D.NegativeBinomial,
        lambda n, p: stats.nbinom(n, 1 - p),
        ((0.5, 3.0, 1000.0), PROBS),
        (0, 1, 5, 1000),
    ),
    "Poisson": (D.Poisson, stats.poisson, ((1e-8, 0.5, 4.0, 1e5),), (0, 1, 5, 1000)),
}


def tensors(parameters):
    return [tessera.tensor(float(p), dtype=F) for p in parameters]


def agree(ours, theirs, rtol=1e-7, atol=1e-9):
    """Equal wherever SciPy has a number."""
    ours, theirs = np.asarray(ours), np.broadcast_to(np.asarray(theirs, dtype=float), np.shape(ours))
    known = ~np.isnan(theirs)
    assert known.any()
    np.testing.assert_allclose(ours[known], theirs[known], rtol=rtol, atol=atol)


def points(reference):
    """Quantiles, and values far beyond."""
    inner = reference.ppf(QUANTILES)
    low, high = reference.support()
    spread = abs(inner[-2] - inner[2])
    ends = [inner[3] - 30 * spread, inner[3] + 30 * spread]
    return np.array([x for x in [*inner, *ends] if np.isfinite(x) and low < x < high])


def each(table):
    return [
        pytest.param(name, parameters, id=f"{name}-{'-'.join(f'{p:g}' for p in parameters)}")
        for name, entry in table.items()
        for parameters in itertools.product(*entry[2])
    ]


@pytest.mark.parametrize("name,parameters", each(CONTINUOUS))
def test_log_density(name, parameters):
    make, reference = CONTINUOUS[name][:2]
    reference, d = reference(*parameters), make(*tensors(parameters))
    x = points(reference)
    assert x.size >= 3
    scale = 1 + np.abs(reference.logpdf(x))
    # the density changes by this much when x is rounded
    ours = d.log_prob(tessera.from_numpy(x)).numpy()
    assert not np.isnan(ours).any()
    moved = np.abs(reference.logpdf(np.nextafter(x, np.inf)) - reference.logpdf(np.nextafter(x, -np.inf)))
    error = np.abs(ours - reference.logpdf(x))
    allowed = 1e-9 * scale + 8 * np.where(np.isfinite(moved), moved, 0)
    assert (error <= allowed).all(), (x, ours, reference.logpdf(x))


CDF = sorted(set(CONTINUOUS) - {"StudentT", "Chi2", "Beta", "FisherSnedecor", "VonMises", "Gamma"})


@pytest.mark.parametrize("name,parameters", [p for p in each(CONTINUOUS) if p.values[0] in CDF])
def test_distribution_function_and_its_inverse(name, parameters):
    make, reference = CONTINUOUS[name][:2]
    reference, d = reference(*parameters), make(*tensors(parameters))
    x = points(reference)
    agree(d.cdf(tessera.from_numpy(x)).numpy(), reference.cdf(x), rtol=1e-6, atol=1e-12)
    q = np.array([1e-3, 0.3, 0.5, 0.9, 0.999])
    if name != "InverseGamma":  # as gamma's, it is not known
        agree(d.icdf(tessera.from_numpy(q)).numpy(), reference.ppf(q), rtol=1e-6)


@pytest.mark.parametrize("a", SHAPES[1:])
def test_gamma_distribution_function(a):
    x = stats.gamma(a, scale=0.5).ppf(QUANTILES[1:])
    agree(D.Gamma(*tensors((a, 2.0))).cdf(tessera.from_numpy(x)).numpy(), QUANTILES[1:], rtol=1e-6)


@pytest.mark.parametrize("name,parameters", [p for p in each(CONTINUOUS) if p.values[0] != "VonMises"])
def test_moments_and_entropy(name, parameters):
    make, reference = CONTINUOUS[name][:2]
    reference, d = reference(*parameters), make(*tensors(parameters))
    mean, variance = reference.stats("mv")
    if np.isfinite(mean):
        agree(d.mean.numpy(), mean, rtol=1e-6)
    if np.isfinite(mean) and np.isfinite(variance) and variance > 0:
        agree(d.variance.numpy(), variance, rtol=1e-4)  # SciPy's own differences of moments
        assert float(d.stddev) == pytest.approx(math.sqrt(float(d.variance)))
    if name != "FisherSnedecor":  # which has none
        agree(d.entropy().numpy(), reference.entropy(), rtol=1e-5, atol=1e-5)
        assert float(d.perplexity()) == pytest.approx(math.exp(float(d.entropy())))


@pytest.mark.parametrize("name,parameters", each(DISCRETE))
def test_probabilities(name, parameters):
    make, reference, _, values = DISCRETE[name]
    reference, d = reference(*parameters), make(*tensors(parameters))
    x = np.array(values, dtype=float)
    x = x[(x <= parameters[0]) if name == "Binomial" else x >= 0]
    ours = d.log_prob(tessera.from_numpy(x)).numpy()
    agree(ours, reference.logpmf(x), rtol=1e-6, atol=2e-8)
    agree(d.mean.numpy(), reference.mean(), rtol=1e-6)
    agree(d.variance.numpy(), reference.var(), rtol=1e-6)
    if name in ("Bernoulli", "Binomial", "Geometric") and 1e-6 < parameters[-1]:
        agree(d.entropy().numpy(), reference.entropy(), rtol=1e-5, atol=1e-8)


def test_vectors_and_matrices():
    a = np.array([0.5, 1.5, 30.0])
    x = stats.dirichlet(a).rvs(5, random_state=0)
    d = D.Dirichlet(tessera.from_numpy(a))
    agree(d.log_prob(tessera.from_numpy(x)).numpy(), [stats.dirichlet(a).logpdf(row) for row in x])
    agree(d.entropy().numpy(), stats.dirichlet(a).entropy())
    p = np.array([0.2, 0.3, 0.5])
    counts = np.array([[0.0, 0.0, 9.0], [2.0, 3.0, 4.0]])
    d = D.Multinomial(9, tessera.from_numpy(p))
    agree(d.log_prob(tessera.from_numpy(counts)).numpy(), stats.multinomial(9, p).logpmf(counts))
    agree(d.entropy().numpy(), stats.multinomial(9, p).entropy())
    covariance = np.array([[2.0, 0.3, -0.5], [0.3, 1.0, 0.2], [-0.5, 0.2, 3.0]])
    reference = stats.multivariate_normal([1.0, -1.0, 0.0], covariance)
    loc, x = tessera.tensor([1.0, -1.0, 0.0], dtype=F), reference.rvs(6, random_state=0)
    given = {
        "covariance_matrix": covariance,
        "precision_matrix": np.linalg.inv(covariance),
        "scale_tril": np.linalg.cholesky(covariance),
    }
    for name, matrix in given.items():
        d = D.MultivariateNormal(loc, **{name: tessera.from_numpy(matrix)})
        agree(d.log_prob(tessera.from_numpy(x)).numpy(), reference.logpdf(x))
        agree(d.entropy().numpy(), reference.entropy())
        for other, wanted in given.items():
            agree(getattr(d, other).numpy(), wanted)
    factor, diagonal = np.array([[1.0], [0.5], [-2.0]]), np.array([1.0, 0.1, 3.0])
    covariance = factor @ factor.T + np.diag(diagonal)
    d = D.LowRankMultivariateNormal(loc, tessera.from_numpy(factor), tessera.from_numpy(diagonal))
    reference = stats.multivariate_normal([1.0, -1.0, 0.0], covariance)
    agree(d.log_prob(tessera.from_numpy(x)).numpy(), reference.logpdf(x))
    agree(d.entropy().numpy(), reference.entropy())
    agree(d.scale_tril.numpy(), np.linalg.cholesky(covariance))
    agree(d.precision_matrix.numpy(), np.linalg.inv(covariance))
    reference = stats.wishart(6.5, covariance)
    d = D.Wishart(tessera.tensor(6.5, dtype=F), tessera.from_numpy(covariance))
    x = reference.rvs(4, random_state=0)
    agree(d.log_prob(tessera.from_numpy(x)).numpy(), [reference.logpdf(one) for one in x])
    agree(d.entropy().numpy(), reference.entropy())
    agree(d.mean.numpy(), reference.mean())
    agree(d.variance.numpy(), reference.var())
    agree(d.mode.numpy(), reference.mode())


def integral(d, low, high, count=200001):
    """The integrals of density and x times density."""
    x = tessera.linspace(low, high, count, dtype=F)[1:-1]
    p = d.log_prob(x).exp()
    return float(tessera.trapezoid(p, x)), float(tessera.trapezoid(p * x, x))


@pytest.mark.parametrize("a,b", [(1.0, 1.0), (2.0, 3.0), (5.0, 1.5)])
def test_kumaraswamy_has_its_mean_and_mode(a, b):
    d = D.Kumaraswamy(*tensors((a, b)))
    total, mean = integral(d, 0, 1)
    assert total == pytest.approx(1, abs=1e-4) and float(d.mean) == pytest.approx(mean, abs=1e-4)
    x = tessera.linspace(0.001, 0.999, 999, dtype=F)
    if a > 1:
        assert abs(float(x[d.log_prob(x).argmax()]) - float(d.mode)) < 2e-3
    samples = tessera.rand(1000, dtype=F)
    tessera.testing.assert_close(d.cdf(d.icdf(samples)), samples)


@pytest.mark.parametrize("p", [1e-6, 0.2, 0.4995, 0.5, 0.50001, 0.7, 1 - 1e-4])
def test_continuous_bernoulli_integrates_to_one(p):
    d = D.ContinuousBernoulli(tessera.tensor(p, dtype=F))
    total, mean = integral(d, 0, 1)
    assert total == pytest.approx(1, abs=1e-4)
    assert float(d.mean) == pytest.approx(mean, abs=1e-4)
    x = tessera.linspace(0, 1, 200001, dtype=F)
    logs = d.log_prob(x)
    assert float(d.entropy()) == pytest.approx(-float(tessera.trapezoid(logs.exp() * logs, x)), abs=2e-4)
    assert float(d.variance) == pytest.approx(float(tessera.trapezoid(logs.exp() * (x - mean) ** 2, x)), abs=1e-4)
    q = tessera.linspace(0.01, 0.99, 9, dtype=F)
    tessera.testing.assert_close(d.cdf(d.icdf(q)), q, rtol=1e-5, atol=1e-6)


def test_modes_where_corners_are_the_maxima():
    """Of several the first, as programs have it that were written for PyTorch."""
    a, b = tensors((0.3, 0.6))
    assert D.Beta(a, b).mode.item() == D.Beta(b, a).mode.item() == 1
    concentration = tessera.tensor([[0.1, 0.2, 0.05], [2.0, 3.0, 1.0], [0.5, 2.0, 1.0]], dtype=F)
    expected = tessera.tensor([[1, 0, 0], [1 / 3, 2 / 3, 0], [0, 1, 0]], dtype=F)
    tessera.testing.assert_close(D.Dirichlet(concentration).mode, expected)


@pytest.mark.parametrize("value,slope", [(0.0, 1.0), (2.0, -math.inf)])
def test_geometric_has_a_gradient_where_success_is_certain(value, slope):
    p = tessera.tensor(1.0, dtype=F, requires_grad=True)
    D.Geometric(p).log_prob(tessera.tensor(value, dtype=F)).backward()
    assert p.grad.item() == slope


@pytest.mark.parametrize("df1,df2", [(3.0, 5.0), (8.0, 9.0)])
def test_fisher_mode(df1, df2):
    d = D.FisherSnedecor(*tensors((df1, df2)))
    x = tessera.linspace(0.001, 3, 3000, dtype=F)
    assert abs(float(x[d.log_prob(x).argmax()]) - float(d.mode)) < 2e-3


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.0])
def test_lkj_integrates_to_one(eta):
    """Over the correlation r of 2 x 2 matrices, whose factor is [[1, 0], [r, sqrt(1 - r^2)]]."""
    angle = tessera.linspace(-math.pi / 2, math.pi / 2, 100001, dtype=F)[1:-1]
    r, rest = angle.sin(), angle.cos()
    zero, one = tessera.zeros_like(r), tessera.ones_like(r)
    factors = tessera.stack([tessera.stack([one, zero], -1), tessera.stack([r, rest], -1)], -2)
    density = D.LKJCholesky(2, tessera.tensor(eta, dtype=F)).log_prob(factors).exp()
    assert float(tessera.trapezoid(density * rest, angle)) == pytest.approx(1, rel=1e-3)
