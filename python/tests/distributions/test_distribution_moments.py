"""Draws against moments and entropies, within the error that the number of draws allows; gradients of draws."""

import math

import pytest
import tessera
import tessera.distributions as D
from distribution_samples import FAMILIES, F, T

COUNT = 40000


NO_ENTROPY = {"FisherSnedecor", "MixtureSameFamily", "NegativeBinomial", "Poisson"}


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_moments(name):
    tessera.manual_seed(5)
    d = FAMILIES[name]()
    x = d.sample((COUNT,))
    assert x.shape == (COUNT,) + d.event_shape and not x.requires_grad and bool(d.support.check(x).all())
    bound = 5.5 / math.sqrt(COUNT)
    assert bool(((x.mean(0) - d.mean).abs() <= bound * d.stddev).all())
    squares = (x - d.mean).square()
    assert bool(((squares.mean(0) - d.variance).abs() <= bound * squares.std(0) + 1e-12).all())
    if name not in NO_ENTROPY:
        logs = d.log_prob(x)
        assert abs(float(logs.mean() + d.entropy())) <= bound * float(logs.std()) + 1e-9


def test_draws_of_correlation_matrices():
    tessera.manual_seed(5)
    factors = D.LKJCholesky(4, T(1.5)).sample((COUNT,))
    matrices = factors @ factors.mT
    first = matrices[:, 1, 0]
    # a correlation is 2 Beta(a, a) - 1 with a = eta - 1 + dim / 2: its variance is 1 / (2 a + 1)
    assert float(first.var()) == pytest.approx(1 / (2 * 2.5 + 1), rel=0.05) and abs(float(first.mean())) < 0.01
    assert bool(D.LKJCholesky(4).support.check(factors).all())


@pytest.mark.parametrize("k", [1e-7, 0.3, 5.0, 300.0])
def test_draws_on_the_circle(k):
    tessera.manual_seed(5)
    d = D.VonMises(T(2.5), T(k))
    x = d.sample((COUNT,))
    assert bool((x >= -math.pi).all()) and bool((x < math.pi).all())
    cosine = (x - 2.5).cos()
    assert abs(float(cosine.mean() - (1 - d.variance))) <= 5.5 * float(cosine.std()) / math.sqrt(COUNT)
    assert abs(float((x - 2.5).sin().mean())) <= 5.5 / math.sqrt(COUNT)


RELAXED = {
    "RelaxedBernoulli": lambda p: D.RelaxedBernoulli(T(0.3), p),
    "RelaxedOneHotCategorical": lambda p: D.RelaxedOneHotCategorical(T(0.3), tessera.stack([p, 1 - p], -1)),
}


@pytest.mark.parametrize("name", RELAXED)
def test_relaxed_draws_lean_as_the_probability_does(name):
    tessera.manual_seed(5)
    p = T(0.8).requires_grad_()
    x = RELAXED[name](p).rsample((COUNT,))
    one = x if x.dim() == 1 else x[:, 0]
    assert abs(float((one > 0.5).to(F).mean()) - 0.8) < 5.5 * 0.4 / math.sqrt(COUNT)
    (gradient,) = tessera.autograd.grad(one.mean(), p)
    assert gradient > 0


# name -> (distribution of a parameter, d mean / d parameter, and of the mean square)
PATHS = {
    "Normal": lambda p: D.Normal(p, p),
    "Laplace": lambda p: D.Laplace(p, p),
    "Gumbel": lambda p: D.Gumbel(p, p),
    "Exponential": lambda p: D.Exponential(p),
    "Gamma": lambda p: D.Gamma(p, p.detach()),
    "Gamma rate": lambda p: D.Gamma(p.detach(), p),
    "Beta": lambda p: D.Beta(p, 2 * p.detach()),
    "Dirichlet": lambda p: D.Dirichlet(tessera.stack([p, 2 * p.detach(), p])),
    "StudentT": lambda p: D.StudentT(4 * p, p.detach(), p.detach()),
    "Chi2": lambda p: D.Chi2(p),
    "FisherSnedecor": lambda p: D.FisherSnedecor(p, 14 * p),
    "InverseGamma": lambda p: D.InverseGamma(6 * p, p),
    "Weibull": lambda p: D.Weibull(p, p),
    "Pareto": lambda p: D.Pareto(p, 6 * p),
    "Kumaraswamy": lambda p: D.Kumaraswamy(p, p),
    "LogNormal": lambda p: D.LogNormal(p, 0.3 * p),
    "HalfNormal": lambda p: D.HalfNormal(p),
    "Uniform": lambda p: D.Uniform(-p, 2 * p),
    "ContinuousBernoulli": lambda p: D.ContinuousBernoulli(p / 4),
    "GeneralizedPareto": lambda p: D.GeneralizedPareto(p, p, 0.05 * p),
}


@pytest.mark.parametrize("name", PATHS)
def test_gradients_of_draws_are_those_of_moments(name):
    """The mean of gradients of x^2 is the gradient of E[x^2] = variance + mean^2."""
    tessera.manual_seed(5)
    p = T(1.5).requires_grad_()
    many = p.expand(COUNT)
    if name == "Dirichlet":
        row = tessera.stack([many, 2 * many.detach(), many], -1)
        d, x = D.Dirichlet(row), D.Dirichlet(row).rsample()
        x, moment = x[:, 0], lambda: (d.variance + d.mean.square())[0, 0]
    else:
        d = PATHS[name](many)
        x, moment = d.rsample(), lambda: (d.variance + d.mean.square())[0]
    samples = tessera.autograd.grad(x.square().sum(), many, retain_graph=True)[0]
    wanted = float(tessera.autograd.grad(moment(), p)[0])
    error = float(samples.std()) / math.sqrt(COUNT)
    assert abs(float(samples.mean()) - wanted) <= 5.5 * error


def test_straight_through_gradient_is_that_of_the_probabilities():
    logits = T(0.2, -0.1, 0.4).requires_grad_()
    weights = T(1.0, 2.0, 3.0)
    drawn = D.OneHotCategoricalStraightThrough(logits=logits).rsample((3,))
    assert drawn.detach().sum(-1).tolist() == pytest.approx([1.0] * 3)
    (ours,) = tessera.autograd.grad((drawn * weights).sum(), logits)
    (theirs,) = tessera.autograd.grad(3 * (logits.softmax(-1) * weights).sum(), logits)
    tessera.testing.assert_close(ours, theirs)


def test_an_underflow_keeps_its_gradient():
    a = tessera.full((200,), 1e-4).requires_grad_()
    x = D.Gamma(a, 1.0).rsample()
    assert bool((x > 0).all())
    x.sum().backward()
    assert bool(a.grad.isfinite().all())
