"""Divergences: every registered pair against an integral or a sum, and how pairs are found."""

import itertools
import math

import numpy as np
import pytest
import tessera
import tessera.distributions as D
from tessera.distributions.kl import _KL_REGISTRY

F = tessera.float64


def T(*numbers):
    return tessera.tensor(numbers[0] if len(numbers) == 1 else numbers, dtype=F)


# family -> (a p and a q for it, the interval in which nearly all of p lies and its points of interest)
NUMBERS = {
    D.Normal: ((D.Normal(T(0.3), T(0.8)), D.Normal(T(1.0), T(2.0))), (-9, 9.6)),
    D.Laplace: ((D.Laplace(T(0.3), T(0.8)), D.Laplace(T(1.0), T(2.0))), (-28, 28)),
    D.Cauchy: ((D.Cauchy(T(0.3), T(0.8)), D.Cauchy(T(1.0), T(2.0))), None),
    D.Gumbel: ((D.Gumbel(T(0.3), T(0.8)), D.Gumbel(T(1.0), T(2.0))), (-4, 30)),
    D.Exponential: ((D.Exponential(T(1.3)), D.Exponential(T(0.4))), (0, 30)),
    D.Gamma: ((D.Gamma(T(2.3), T(1.1)), D.Gamma(T(1.4), T(0.7))), (0, 45)),
    D.Beta: ((D.Beta(T(2.3), T(1.4)), D.Beta(T(1.5), T(3.0))), (0, 1)),
    D.ContinuousBernoulli: ((D.ContinuousBernoulli(T(0.2)), D.ContinuousBernoulli(T(0.7))), (0, 1)),
    D.Pareto: ((D.Pareto(T(1.5), T(6.0)), D.Pareto(T(1.2), T(2.0))), None),
    D.Uniform: ((D.Uniform(T(0.2), T(0.9)), D.Uniform(T(-0.1), T(1.4))), (0.2, 0.9)),
    D.HalfNormal: ((D.HalfNormal(T(0.8)), D.HalfNormal(T(1.7))), (0, 8)),
}
COUNTS = {
    D.Bernoulli: ((D.Bernoulli(T(0.3)), D.Bernoulli(T(0.6))), 2),
    D.Binomial: ((D.Binomial(6, T(0.3)), D.Binomial(6, T(0.6))), 7),
    D.Geometric: ((D.Geometric(T(0.3)), D.Geometric(T(0.6))), 150),
    D.Poisson: ((D.Poisson(T(2.3)), D.Poisson(T(4.6))), 60),
    D.Categorical: ((D.Categorical(T(0.3, 0.5, 0.2)), D.Categorical(T(0.4, 0.1, 0.5))), 3),
}
COVARIANCES = [np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[1.0, -0.2], [-0.2, 0.5]])]
VECTORS = {
    D.MultivariateNormal: [D.MultivariateNormal(T(0.1 * i, 0.5), T(COVARIANCES[i].tolist())) for i in (0, 1)],
    D.LowRankMultivariateNormal: [
        D.LowRankMultivariateNormal(T(0.2, 0.1 * i), T([[0.5 + i], [0.2]]), T(1.0, 0.5 + i)) for i in (0, 1)
    ],
}
OTHERS = {
    D.Dirichlet: [D.Dirichlet(T(1.5, 2.5)), D.Dirichlet(T(3.0, 1.2))],
    D.OneHotCategorical: [D.OneHotCategorical(T(0.3, 0.5, 0.2)), D.OneHotCategorical(T(0.4, 0.1, 0.5))],
    D.Independent: [D.Independent(D.Normal(T(0.0, i), T(1.0, 2.0)), 1) for i in (0.5, 1.0)],
    D.TransformedDistribution: [D.LogNormal(T(i), T(0.5)) for i in (0.2, 0.7)],
    D.ExponentialFamily: [D.Chi2(T(3.0)), D.Chi2(T(5.0))],
}


def integrated(p, q, ends):
    """The integral of p (log p - log q): over x, or over quantiles of p where it has heavy tails.

    By the trapezoidal rule after x = sigmoid(t), which crowds points at both ends; in two parts, so that a kink at loc
    is at an end.
    """
    t = tessera.linspace(-36, 36, 20001, dtype=F)
    u, weight = t.sigmoid(), t.sigmoid() * (-t).sigmoid()
    if ends is None:
        x = p.icdf(u[(u > 0) & (u < 1)])
        return float(
            tessera.trapezoid((p.log_prob(x) - q.log_prob(x)) * weight[(u > 0) & (u < 1)], t[(u > 0) & (u < 1)])
        )
    total, middle = 0.0, float(getattr(p, "loc", T(0.5 * (ends[0] + ends[1]))))
    for low, high in ((ends[0], middle), (middle, ends[1])):
        x = low + (high - low) * u
        inside = (x > low) & (x < high)
        log_p, log_q = p.log_prob(x[inside]), q.log_prob(x[inside])
        each = log_p.exp() * (log_p - log_q) * weight[inside] * (high - low)
        total += float(tessera.trapezoid(each, t[inside]))
    return total


@pytest.fixture(autouse=True)
def _values_anywhere():
    """Densities outside of a support are asked for, to find them 0."""
    D.Distribution.set_default_validate_args(False)
    yield
    D.Distribution.set_default_validate_args(True)


def test_every_pair_is_compared():
    table = {**NUMBERS, **COUNTS, **VECTORS, **OTHERS}
    ours = {pair for pair in _KL_REGISTRY if all(kind.__module__.startswith("tessera.") for kind in pair)}
    assert len(ours) == 87 and all(kind in table for pair in ours for kind in pair)


PAIRS = [pair for pair in itertools.product(NUMBERS, repeat=2) if pair in _KL_REGISTRY]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(kind.__name__ for kind in pair))
def test_numbers(pair):
    (p, _), ends = NUMBERS[pair[0]]
    q = NUMBERS[pair[1]][0][1]
    p.__dict__.update(_validate_args=False), q.__dict__.update(_validate_args=False)
    known = D.kl_divergence(p, q)
    assert known.shape == () and known.dtype == F
    if math.isinf(float(known)):
        x = T(-1.0, 0.25, 0.6, 0.9, 1.9)
        x = x[p.support.check(x) & (p.log_prob(x) > -60)]
        assert x.numel() and not bool(q.support.check(x).all())
    else:
        assert float(known) == pytest.approx(integrated(p, q, ends), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("kind", COUNTS, ids=lambda kind: kind.__name__)
def test_counts(kind):
    (p, q), count = COUNTS[kind]
    x = tessera.arange(count).to(F)
    logs = p.log_prob(x)
    assert float(D.kl_divergence(p, q)) == pytest.approx(float((logs.exp() * (logs - q.log_prob(x))).sum()), rel=1e-6)
    assert float(D.kl_divergence(p, p)) == pytest.approx(0, abs=1e-12)


def test_counts_of_different_families():
    p, q = D.Bernoulli(T(0.3)), D.Poisson(T(0.7))
    x = T(0.0, 1.0)
    wanted = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum()
    tessera.testing.assert_close(D.kl_divergence(p, q), wanted)
    assert D.kl_divergence(q, p) == math.inf and D.kl_divergence(q, D.Binomial(3, T(0.5))) == math.inf
    assert D.kl_divergence(D.Binomial(7, T(0.5)), D.Binomial(6, T(0.5))) == math.inf
    with pytest.raises(NotImplementedError, match="total_count"):
        D.kl_divergence(D.Binomial(5, T(0.5)), D.Binomial(6, T(0.5)))


@pytest.mark.parametrize("p_zero,q_zero,wanted", [(0.0, 0.5, math.log(2)), (0.5, 0.0, math.inf), (1.0, 0.0, math.inf)])
def test_certain_bernoulli(p_zero, q_zero, wanted):
    assert float(D.kl_divergence(D.Bernoulli(T(p_zero)), D.Bernoulli(T(q_zero)))) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "pair", list(itertools.product(VECTORS, repeat=2)), ids=lambda p: "-".join(k.__name__ for k in p)
)
def test_normal_vectors(pair):
    p, q = VECTORS[pair[0]][0], VECTORS[pair[1]][1]
    P, Q = p.covariance_matrix.numpy(), q.covariance_matrix.numpy()
    apart, inverse = (q.loc - p.loc).numpy(), np.linalg.inv(Q)
    wanted = np.log(np.linalg.det(Q) / np.linalg.det(P)) + np.trace(inverse @ P) + apart @ inverse @ apart - 2
    assert float(D.kl_divergence(p, q)) == pytest.approx(0.5 * wanted, rel=1e-9)
    batched = D.kl_divergence(p.expand((3, 1)), q.expand((4,)))
    assert batched.shape == (3, 4) and bool(((batched - 0.5 * wanted).abs() < 1e-9).all())


def test_what_is_made_of_others():
    p, q = OTHERS[D.Dirichlet]
    of_beta = D.kl_divergence(D.Beta(T(1.5), T(2.5)), D.Beta(T(3.0), T(1.2)))
    tessera.testing.assert_close(D.kl_divergence(p, q), of_beta)
    p, q = OTHERS[D.OneHotCategorical]
    wanted = D.kl_divergence(D.Categorical(p.probs), D.Categorical(q.probs))
    tessera.testing.assert_close(D.kl_divergence(p, q), wanted)
    p, q = OTHERS[D.Independent]
    wanted = D.kl_divergence(p.base_dist, q.base_dist).sum(-1)
    tessera.testing.assert_close(D.kl_divergence(p, q), wanted)
    p, q = OTHERS[D.TransformedDistribution]
    tessera.testing.assert_close(D.kl_divergence(p, q), D.kl_divergence(p.base_dist, q.base_dist))
    p, q = OTHERS[D.ExponentialFamily]
    of_gamma = D.kl_divergence(D.Gamma(0.5 * p.df, T(0.5)), D.Gamma(0.5 * q.df, T(0.5)))
    tessera.testing.assert_close(D.kl_divergence(p, q), of_gamma)
    from tessera.distributions.kl import _KL_REGISTRY as registered

    general = registered[D.ExponentialFamily, D.ExponentialFamily]
    tessera.testing.assert_close(general(p, q), of_gamma)
    for kind in (D.Normal, D.Exponential, D.Bernoulli, D.Poisson, D.Beta):
        p, q = {**NUMBERS, **COUNTS}[kind][0]
        tessera.testing.assert_close(general(p, q), D.kl_divergence(p, q))
    for kind in (D.Dirichlet,):
        p, q = OTHERS[kind]
        tessera.testing.assert_close(general(p, q), D.kl_divergence(p, q))


def test_wishart_by_draws():
    p, q = D.Wishart(T(7.0), T([[1.0, 0.2], [0.2, 0.5]])), D.Wishart(T(9.0), T([[0.8, 0.0], [0.0, 0.6]]))
    tessera.manual_seed(0)
    x = p.sample((40000,))
    differences = p.log_prob(x) - q.log_prob(x)
    error = float(differences.std()) / math.sqrt(40000)
    assert abs(float(D.kl_divergence(p, q)) - float(differences.mean())) < 5 * error


def test_gradients_reach_both_distributions():
    a, b = T(1.5).requires_grad_(), T(2.5).requires_grad_()
    for p, q in ((D.Gamma(a, T(1.0)), D.Gamma(b, T(2.0))), (D.Chi2(a), D.Chi2(b)), (D.Exponential(a), D.Gamma(b, b))):
        gradients = tessera.autograd.grad(D.kl_divergence(p, q), (a, b))
        assert all(bool(g.isfinite()) and g != 0 for g in gradients)


class TestDispatch:
    def test_the_nearest_pair_is_taken(self):
        class A(D.Normal):
            pass

        class B(A):
            pass

        D.register_kl(A, D.Normal)(lambda p, q: "A-Normal")
        assert D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "A-Normal"
        D.register_kl(B, B)(lambda p, q: "B-B")
        assert D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "B-B"
        assert D.kl_divergence(A(0.0, 1.0), B(0.0, 1.0)) == "A-Normal"

    def test_ambiguous_pairs_warn(self):
        class A(D.Normal):
            pass

        D.register_kl(A, D.Normal)(lambda p, q: "left")
        D.register_kl(D.Normal, A)(lambda p, q: "right")
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            assert D.kl_divergence(A(0.0, 1.0), A(0.0, 1.0)) == "left"

    def test_unknown_pairs(self):
        with pytest.raises(NotImplementedError, match="No KL.* StudentT .* VonMises"):
            D.kl_divergence(D.StudentT(2.0), D.VonMises(0.0, 1.0))
        with pytest.raises(NotImplementedError, match="Bregman"):
            D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
        with pytest.raises(TypeError, match="type_p"):
            D.register_kl(3, D.Normal)
        with pytest.raises(NotImplementedError, match="different transforms"):
            D.kl_divergence(D.LogNormal(0.0, 1.0), D.LogisticNormal(tessera.zeros(1), tessera.ones(1)))
