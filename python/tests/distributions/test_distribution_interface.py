"""Shapes, expansion, checks and their messages, texts, copies, and what subclasses may rely on."""

import copy
import inspect
import math
import pickle
import subprocess
import sys

import pytest
import tessera
import tessera.distributions as D
from tessera.distributions import constraints
from distribution_samples import FAMILIES

T = tessera.tensor
ALL = {
    **FAMILIES,
    "Categorical": lambda: D.Categorical(T([[0.3, 0.7], [0.5, 0.5]])),
    "Cauchy": lambda: D.Cauchy(T([0.0, 1.0]), T(1.0)),
    "HalfCauchy": lambda: D.HalfCauchy(T(2.0)),
    "Independent": lambda: D.Independent(D.Normal(tessera.zeros(2, 3), 1.0), 1),
    "LKJCholesky": lambda: D.LKJCholesky(3, T([1.0, 2.0])),
    "LogisticNormal": lambda: D.LogisticNormal(tessera.zeros(2), tessera.ones(2)),
    "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(T([0.3, 0.7])),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(T(0.5), T([0.3, 0.6])),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(T(0.5), T([0.3, 0.7])),
    "TransformedDistribution": lambda: D.TransformedDistribution(D.Normal(tessera.zeros(2), 1.0), D.ExpTransform()),
    "VonMises": lambda: D.VonMises(T(0.5), T(2.0)),
}


NO_MOMENTS = "mean mode variance stddev entropy"
# What has no closed form, and no function that computes it.
LACKING = {
    "ContinuousBernoulli": "mode",
    "FisherSnedecor": "entropy",
    "LKJCholesky": NO_MOMENTS,
    "LogisticNormal": NO_MOMENTS,
    "MixtureSameFamily": "mode entropy",
    "Multinomial": "mode",
    "NegativeBinomial": "entropy",
    "Poisson": "entropy",
    "RelaxedBernoulli": NO_MOMENTS,
    "RelaxedOneHotCategorical": NO_MOMENTS,
    "TransformedDistribution": NO_MOMENTS,
    "VonMises": "entropy",
}


def test_all_are_here():
    families = {n for n in D.__all__ if isinstance(getattr(D, n), type) and issubclass(getattr(D, n), D.Distribution)}
    assert families - set(ALL) == {"Distribution", "ExponentialFamily"}


@pytest.mark.parametrize("name", ALL)
def test_shapes_and_expansion(name):
    d = ALL[name]()
    batch, event = d.batch_shape, d.event_shape
    tessera.manual_seed(0)
    x = d.sample((4, 2))
    assert x.shape == (4, 2) + batch + event and d.log_prob(x).shape == (4, 2) + batch
    wide = d.expand((3,) + batch)
    assert type(wide) is type(d) and wide.batch_shape == (3,) + batch and wide.event_shape == event
    assert wide._validate_args == d._validate_args
    tessera.testing.assert_close(wide.log_prob(x[0, 0]), d.log_prob(x[0, 0]).expand((3,) + batch))
    assert wide.sample((2,)).shape == (2, 3) + batch + event
    assert wide.expand((5, 3) + batch).batch_shape == (5, 3) + batch
    lacking = LACKING.get(name, "").split()
    for what in lacking:
        with pytest.raises(NotImplementedError):
            d.entropy() if what == "entropy" else getattr(d, what)
    for what in {"mean", "mode", "variance", "stddev"}.difference(lacking):
        value = getattr(d, what)
        assert value.shape == (batch if name == "Categorical" else batch + event), what
        tessera.testing.assert_close(getattr(wide, what), value.expand((3,) + value.shape), equal_nan=True)
    if "entropy" not in lacking:
        assert d.entropy().shape == batch
        tessera.testing.assert_close(wide.entropy(), d.entropy().expand((3,) + batch))


@pytest.mark.parametrize("name", ALL)
def test_copies_and_pickles(name):
    d = ALL[name]()
    tessera.manual_seed(0)
    x = d.sample((3,))
    text, others = repr(d), (copy.deepcopy(d), copy.copy(d), pickle.loads(pickle.dumps(d)))
    assert type(d).__name__ in text
    assert all(type(other) is type(d) and repr(other) == text for other in others)
    for other in others:
        tessera.testing.assert_close(other.log_prob(x), d.log_prob(x))


SMOOTH = [name for name in ALL if name != "Uniform" and ALL[name]().has_rsample and not ALL[name]().event_shape]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_densities(name):
    """The density's gradient at its value, against differences."""
    d = ALL[name]()
    tessera.manual_seed(1)
    x = d.sample().double().requires_grad_()
    (g,) = tessera.autograd.grad(d.log_prob(x).sum(), x)
    step = 1e-6
    with tessera.no_grad():
        difference = (d.log_prob(x + step) - d.log_prob(x - step)) / (2 * step)
    tessera.testing.assert_close(g, difference.to(g.dtype), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_documented_modules_hold_the_classes(name):
    kind = getattr(D, name)
    module = sys.modules[kind.__module__]
    assert getattr(module, name) is kind and kind.__module__.startswith("tessera.distributions.")
    assert module.Distribution is D.Distribution and module.constraints is D.constraints
    assert inspect.getdoc(kind) and "validate_args" in inspect.signature(kind).parameters


def test_values_of_discrete_families():
    assert D.Bernoulli(tessera.full((3,), 0.3)).enumerate_support().shape == (2, 3)
    assert D.Bernoulli(tessera.full((3,), 0.3)).enumerate_support(False).tolist() == [[0.0], [1.0]]
    assert D.Binomial(3, T(0.5)).enumerate_support().tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(NotImplementedError, match="Inhomogeneous"):
        D.Binomial(T([1, 2]), T([0.5, 0.5])).enumerate_support()
    numbers = D.Categorical(tessera.ones(2, 4)).enumerate_support(expand=False)
    assert numbers.tolist() == [[0], [1], [2], [3]] and numbers.dtype == tessera.int64
    vectors = D.OneHotCategorical(tessera.ones(2, 3)).enumerate_support()
    assert vectors.shape == (3, 2, 3) and vectors[:, 1].tolist() == tessera.eye(3).tolist()
    with pytest.raises(NotImplementedError, match="cartesian"):
        D.Independent(D.Bernoulli(tessera.full((3,), 0.3)), 1).enumerate_support()
    assert D.Independent(D.Bernoulli(T([0.3])), 0).has_enumerate_support


# (call, text of the ValueError)
MESSAGES = [
    (
        lambda: D.Normal(T([0.0, math.nan]), 1.0),
        r"Expected parameter loc \(Tensor of shape \(2,\)\) of distribution Normal\(loc: torch.Size\(\[2\]\), "
        r"scale: torch.Size\(\[2\]\)\) to satisfy the constraint Real\(\), but found invalid values:\n"
        r"tensor\(\[0., nan\]\)",
    ),
    (lambda: D.Normal(0.0, -1.0), r"scale .* GreaterThan\(lower_bound=0.0\), but found invalid values:\n-1.0"),
    (lambda: D.Uniform(2.0, 1.0), r"parameter low .* LessThan\(upper_bound=1.0\)"),
    (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified, but not both."),
    (lambda: D.Bernoulli(0.5, 0.5), "Either `probs` or `logits` must be specified, but not both."),
    (lambda: D.Bernoulli(1.5), r"parameter probs .* Interval\(lower_bound=0.0, upper_bound=1.0\)"),
    (lambda: D.Geometric(0.0), "parameter probs .* to be positive"),
    (lambda: D.Categorical(T(0.5)), "`probs` parameter must be at least one-dimensional"),
    (lambda: D.Categorical(T([-1.0, 2.0])), r"parameter probs .* Simplex\(\)"),
    (lambda: D.Dirichlet(T(1.0)), "`concentration` parameter must be at least one-dimensional"),
    (lambda: D.Dirichlet(T([1.0, -1.0])), r"IndependentConstraint\(GreaterThan\(lower_bound=0.0\), 1\)"),
    (lambda: D.Multinomial(-1, T([0.5, 0.5])), "total_count must be at least 0"),
    (lambda: D.MultivariateNormal(T(0.0), T([[1.0]])), "loc must be at least one-dimensional"),
    (lambda: D.MultivariateNormal(T([0.0]), tessera.eye(1), tessera.eye(1)), "Exactly one of covariance_matrix or"),
    (lambda: D.MultivariateNormal(tessera.zeros(2)), "Exactly one of covariance_matrix or"),
    (lambda: D.MultivariateNormal(tessera.zeros(2), tessera.zeros(2)), "covariance_matrix must be at least two-dim"),
    (lambda: D.MultivariateNormal(tessera.zeros(2), -tessera.eye(2)), r"covariance_matrix .* PositiveDefinite\(\)"),
    (lambda: D.LowRankMultivariateNormal(tessera.zeros(2), tessera.ones(3, 1), tessera.ones(2)), "shape 2 x m"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "Expected reinterpreted_batch_ndims <= .*, actual 1 vs 0"),
    (lambda: D.MixtureSameFamily(D.Bernoulli(0.5), D.Normal(tessera.zeros(2), 1.0)), "Categorical"),
    (lambda: D.MixtureSameFamily(D.Categorical(tessera.ones(2)), D.Normal(tessera.zeros(3), 1.0)), r"\(2\) .* \(3\)"),
    (lambda: D.MixtureSameFamily(D.Categorical(tessera.ones(2)), D.Normal(0.0, 1.0)), "number of components"),
    (lambda: D.Wishart(0.5, tessera.eye(2)), "Value of df=0.5 expected to be greater than ndim - 1 = 1"),
    (lambda: D.LKJCholesky(1), "greater than or equal to 2. Found dim=1"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), "transforms must be a Transform or list, but was 3"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), "size at least 1"),
    (lambda: D.Normal("a", 1.0), "must all be instances of Number, torch.Tensor"),
    (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "value argument to log_prob must be a Tensor"),
    (
        lambda: D.Normal(0.0, 1.0).log_prob(T(math.nan)),
        r"Expected value argument \(Tensor of shape \(\)\) to be within the support \(Real\(\)\) of the distribution "
        r"Normal\(loc: 0.0, scale: 1.0\), but found invalid values:\nnan",
    ),
    (lambda: D.Normal(tessera.zeros(3), 1.0).log_prob(tessera.zeros(2)), "not broadcastable with batch_shape"),
    (lambda: D.Dirichlet(tessera.ones(3)).log_prob(tessera.ones(2) / 2), "right-most size of value must match"),
    (lambda: D.Bernoulli(0.5).log_prob(T([0.5])), r"support \(Boolean\(\)\)"),
    (lambda: D.Poisson(1.0).log_prob(T(1.5)), r"support \(IntegerGreaterThan\(lower_bound=0\)\)"),
    (lambda: D.Categorical(tessera.ones(3)).log_prob(T(3)), r"IntegerInterval\(lower_bound=0, upper_bound=2\)"),
    (lambda: D.Pareto(1.0, 1.0).log_prob(T(0.5)), r"GreaterThanEq\(lower_bound=1.0\)"),
    (lambda: D.Distribution.set_default_validate_args(3), "True or False"),
]


@pytest.mark.parametrize("number", range(len(MESSAGES)))
def test_bad_input_is_named(number):
    call, text = MESSAGES[number]
    with pytest.raises(ValueError, match=f"(?s){text.replace('torch.Size', '(?:torch|tessera).Size')}"):
        call()


def test_checks_can_be_left_out():
    assert D.Normal(0.0, -1.0, validate_args=False)._validate_args is False
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(T(2.0)) == -math.inf
    unchecked = D.Normal(T([0.0, 1.0]), 2.0, validate_args=False)  # numbers are values, too
    for method in (unchecked.log_prob, unchecked.cdf):
        assert method(1.0).tolist() == method(T(1.0)).tolist()
    with pytest.raises(ValueError, match="must be a Tensor"):
        D.Normal(0.0, 1.0).cdf(1.0)
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0)


def test_what_is_not_known_is_not_implemented():
    blank = D.Distribution(validate_args=False)
    for what in ("mean", "mode", "variance", "stddev", "support", "arg_constraints"):
        with pytest.raises(NotImplementedError, match=what if what != "stddev" else "variance"):
            getattr(blank, what)
    calls = [lambda: blank.sample(), lambda: blank.log_prob(T(1.0)), lambda: blank.expand((1,)), blank.entropy]
    calls += [lambda: D.Poisson(1.0).rsample(), lambda: D.Poisson(1.0).cdf(T(1.0)), D.Poisson(1.0).entropy]
    calls += [lambda: D.Gamma(1.0, 1.0).icdf(T(0.5)), lambda: D.Normal(0.0, 1.0).enumerate_support()]
    for call in calls:
        with pytest.raises(NotImplementedError):
            call()
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        D.Distribution()


class TestSubclasses:
    def test_without_a_constructor(self):
        class Mine(D.Normal):
            def log_prob(self, value):
                return super().log_prob(value) + 1

        wide = Mine(0.0, 1.0).expand((3,))
        assert type(wide) is Mine and wide.log_prob(T(0.0)).shape == (3,)

    def test_with_a_constructor_and_expand(self):
        class Mine(D.Gamma):
            def __init__(self, mean, validate_args=None):
                super().__init__(mean, 1.0, validate_args=validate_args)

        with pytest.raises(NotImplementedError, match="Subclass Mine of Gamma .* must also define a custom .expand"):
            Mine(T(2.0)).expand((3,))

        class Whole(Mine):
            def expand(self, batch_shape, _instance=None):
                return super().expand(batch_shape, _instance=self._get_checked_instance(Whole, _instance))

        assert type(Whole(T(2.0)).expand((3,))) is Whole and Whole(T(2.0)).expand((3,)).mean.tolist() == [2.0] * 3

    def test_of_the_base(self):
        class Point(D.Distribution):
            arg_constraints = {"at": constraints.real}
            support = constraints.real
            has_rsample = True

            def __init__(self, at, validate_args=None):
                self.at = at
                super().__init__(at.shape, validate_args=validate_args)

            def expand(self, batch_shape, _instance=None):
                new = self._get_checked_instance(Point, _instance)
                new.at = self.at.expand(batch_shape)
                super(Point, new).__init__(tessera.Size(batch_shape), validate_args=False)
                new._validate_args = self._validate_args
                return new

            def rsample(self, sample_shape=()):
                return self.at.expand(self._extended_shape(sample_shape))

            def log_prob(self, value):
                self._validate_sample(value)
                return tessera.where(value == self.at, 0.0, -math.inf)

        p = Point(T([1.0, 2.0]))
        assert p.expand((3, 2)).sample((4,)).shape == (4, 3, 2) and "Point(at: " in repr(p)
        with pytest.raises(ValueError, match="parameter at"):
            Point(T(math.nan))
        with pytest.raises(ValueError, match="support"):
            p.log_prob(T([1.0, math.nan]))
        assert D.Independent(p, 1).log_prob(T([1.0, 2.0])) == 0

    def test_that_build_a_transformed_family_themselves(self):
        class Mine(D.LogNormal):
            def __init__(self, loc, scale, validate_args=None):
                normal = D.Normal(loc, scale)
                super(D.LogNormal, self).__init__(normal, D.ExpTransform(), validate_args=validate_args)

            def expand(self, batch_shape, _instance=None):
                new = self._get_checked_instance(Mine, _instance)
                return super(D.LogNormal, self).expand(batch_shape, _instance=new)

        d = Mine(T(0.3), T(0.5))
        tessera.testing.assert_close(d.log_prob(T(2.0)), D.LogNormal(0.3, 0.5).log_prob(T(2.0)))
        assert d.loc == T(0.3) and d.expand((3,)).scale.shape == (3,) and type(d.expand((3,))) is Mine


def test_lazy_parameters_are_made_once():
    probs = T(0.25).requires_grad_()
    d = D.Bernoulli(probs)
    assert "logits" not in vars(d)
    with tessera.no_grad():
        logits = d.logits
    assert vars(d)["logits"] is logits and logits.requires_grad
    assert isinstance(D.Bernoulli.logits, property)
    m = D.MultivariateNormal(tessera.zeros(2), scale_tril=tessera.eye(2))
    assert "precision_matrix" not in vars(m) and m.precision_matrix is m.precision_matrix


def test_parameters_keep_dtype_and_gradients():
    loc = tessera.zeros(2, dtype=tessera.float64, requires_grad=True)
    d = D.Normal(loc, 1)
    assert d.scale.dtype == tessera.float64 and d.loc.data_ptr() == loc.data_ptr()
    d.log_prob(tessera.ones(2, dtype=tessera.float64)).sum().backward()
    assert loc.grad.tolist() == [1.0, 1.0]
    assert D.Normal(0, 1).loc.dtype == tessera.get_default_dtype()
    assert D.Normal(tessera.zeros(3), tessera.ones(2, 1)).batch_shape == (2, 3)


def test_entropy_by_bregman():
    for d in (D.Normal(T(2.0), T(3.0)), D.Exponential(T(2.0)), D.Bernoulli(T(0.3)), D.ContinuousBernoulli(T(0.3))):
        tessera.testing.assert_close(D.ExponentialFamily.entropy(d), d.entropy(), rtol=1e-4, atol=1e-5)
    d = D.Wishart(T(6.0), T([[2.0, 0.3], [0.3, 1.0]]))
    with pytest.raises(NotImplementedError, match="_mean_carrier_measure"):
        D.ExponentialFamily.entropy(D.Gamma(T(2.0), T(3.0)))
    assert d.entropy().isfinite()


def test_the_package_loads_distributions_late():
    code = "import sys, tessera; print('tessera.distributions' in sys.modules); tessera.distributions.normal.Normal"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
    import importlib

    assert importlib.import_module("tessera.distributions.half_cauchy").HalfCauchy is D.HalfCauchy


def test_a_beta_is_the_dirichlet_of_two():
    beta = tessera.distributions.Beta(tessera.tensor([2.0, 3.0]), tessera.tensor([4.0, 5.0]))
    assert beta._dirichlet.concentration.tolist() == [[2, 4], [3, 5]]
    assert beta._dirichlet.mean[:, 0].tolist() == beta.mean.tolist()
    beta._dirichlet.concentration = tessera.tensor([[1.0, 1.0], [6.0, 2.0]])
    assert beta.concentration1.tolist() == [1, 6] and beta.mean.tolist() == [0.5, 0.75]


def test_what_lies_beyond_the_support_of_a_transformed_distribution_has_probability_0_below_it():
    d = tessera.distributions.LogNormal(tessera.zeros(2), tessera.ones(2))
    tessera.testing.assert_close(d.cdf(tessera.tensor([0.0, 1.0])), tessera.tensor([0.0, 0.5]))
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(tessera.tensor([-1.0, 1.0]))


def test_draws_of_beta_and_dirichlet_have_logarithms_and_so_have_their_rests():
    for dtype in (tessera.float32, tessera.float64):
        d = tessera.distributions.Beta(
            tessera.full((1000,), 50.0, dtype=dtype), tessera.full((1000,), 0.01, dtype=dtype)
        )
        tessera.manual_seed(0)
        draws = d.sample()
        assert (draws > 0).all() and (draws < 1).all() and (draws == draws.max()).sum() > 100
        assert d.log_prob(draws).isfinite().all()


def test_continuous_bernoulli_at_the_ends_of_its_parameter():
    d = tessera.distributions.ContinuousBernoulli(tessera.tensor([0.0, 1.0]))
    # 1 - 1 / ln((1 - eps) / eps) for the largest number below 1 that is taken: SciPy's truncexpon with b = 15.9424
    tessera.testing.assert_close(d.mean, tessera.tensor([0.06272, 0.93727]), rtol=0, atol=1e-4)
    assert d.icdf(tessera.tensor(0.3)).isfinite().all()
    with pytest.raises(ValueError, match="probs"):
        tessera.distributions.ContinuousBernoulli(tessera.tensor([-0.1]))


def test_texts_have_the_parameters_that_a_distribution_holds():
    """Those that are of a distribution inside of it are not told."""
    D, one = tessera.distributions, tessera.ones(2)
    bare = [D.Beta(one, one), D.Chi2(one), D.HalfCauchy(one), D.HalfNormal(one), D.InverseGamma(one, one),
            D.LogNormal(one, one), D.Multinomial(3, one), D.OneHotCategorical(one),
            D.OneHotCategoricalStraightThrough(one)]  # fmt: skip
    for d in bare:
        assert repr(d) == f"{type(d).__name__}()" == repr(d.expand((3, *d.batch_shape)))
    assert repr(D.Gamma(one, one)) == f"Gamma(concentration: {one.size()}, rate: {one.size()})"
    with pytest.raises(ValueError, match=r"distribution Bernoulli\(probs: 0.5\), but"):
        D.Bernoulli(0.5).log_prob(tessera.tensor(2.0))
