"""Distributions over positive numbers."""

import math

from tessera import _C

from . import _formulas as formulas
from . import constraints
from ._draws import gamma_draws, kept_positive
from ._family import Family, at_value, cdf_of, draws, entropy_of, icdf_of
from ._real_line import Cauchy, Normal
from .exp_family import ExponentialFamily
from .transformed_distribution import Mapped
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .utils import euler_constant

_HALF_LOG_2PI_E = 0.5 * (1 + math.log(2 * math.pi))


class Exponential(Family, ExponentialFamily, parameters="rate"):
    """The exponential distribution: rate * exp(-rate * x), with mean 1 / rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None):
        self._take(validate_args, rate=rate)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: _C.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))
    rsample = draws(lambda shape, rate: _C.empty_like(rate.detach()).resize_(shape).exponential_() / rate)
    log_prob = at_value(formulas.exponential_log_prob)
    cdf = cdf_of(formulas.exponential_cdf)
    icdf = icdf_of(formulas.exponential_icdf)
    entropy = entropy_of(lambda rate: 1 - rate.log())
    _natural_params = property(lambda self: (-self.rate,))

    def _log_normalizer(self, negative_rate):
        return -(-negative_rate).log()


class Gamma(Family, ExponentialFamily, parameters="concentration rate"):
    """The gamma distribution with shape `concentration` and inverse scale `rate`; mean concentration / rate."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self._take(validate_args, concentration=concentration, rate=rate)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.square())
    rsample = draws(lambda shape, concentration, rate: gamma_draws(concentration, rate))
    log_prob = at_value(formulas.gamma_log_prob)
    cdf = cdf_of(lambda value, concentration, rate: _C.igamma(concentration, rate * value))
    entropy = entropy_of(formulas.gamma_entropy)
    _natural_params = property(lambda self: (self.concentration - 1, -self.rate))

    def _log_normalizer(self, power, negative_rate):
        return (power + 1).lgamma() - (power + 1) * (-negative_rate).log()


class Chi2(Gamma, parameters="concentration rate"):
    """The chi-squared distribution with `df` degrees of freedom: Gamma(df / 2, 1 / 2)."""

    _told = False
    arg_constraints = {"df": constraints.positive}
    df = property(lambda self: 2 * self.concentration)

    def __init__(self, df, validate_args=None):
        half = 0.5 * df
        self._take(validate_args, concentration=half, rate=0.5)

    def _expand_into(self, new, batch_shape):
        for name in self._names:
            new.__dict__[name] = getattr(self, name).expand(batch_shape)


class FisherSnedecor(Family, parameters="df1 df2"):
    """Fisher's F distribution with `df1` and `df2` degrees of freedom: of a ratio of two chi-squared means.

    The mean exists for df2 > 2 and the variance for df2 > 4; else they are nan.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self._take(validate_args, df1=df1, df2=df2)

    log_prob = at_value(formulas.fisher_snedecor_log_prob)

    @property
    def mean(self):
        df2 = self.df2
        return (df2 / (df2 - 2)).masked_fill(df2 <= 2, math.nan).expand(self._batch_shape)

    @property
    def mode(self):
        df1, df2 = self.df1, self.df2
        return ((df1 - 2) / df1 * (df2 / (df2 + 2))).masked_fill(df1 <= 2, math.nan)

    @property
    def variance(self):
        df1, df2 = self.df1, self.df2
        finite = 2 * (df2 / (df2 - 2)).square() * (df1 + df2 - 2) / (df1 * (df2 - 4))
        return finite.masked_fill(df2 <= 4, math.nan)

    @draws
    def rsample(shape, df1, df2):
        above = gamma_draws(0.5 * df1, df1)
        below = gamma_draws(0.5 * df2, df2)
        return kept_positive(above / below)


class LogNormal(Mapped, parameters="loc scale"):
    """The distribution of exp(x) where x is normal with mean `loc` and standard deviation `scale`."""

    _told = False
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale)

    def _map(self):
        return Normal(self.loc, self.scale, validate_args=False), [ExpTransform()]

    mean = property(lambda self: (self.loc + 0.5 * self.scale.square()).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    log_prob = at_value(formulas.log_normal_log_prob)
    entropy = entropy_of(lambda loc, scale: _HALF_LOG_2PI_E + scale.log() + loc)

    @property
    def variance(self):
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()


class _Folded(Mapped):
    """|x| of a symmetric distribution around 0, of a given scale."""

    _told = False
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale, validate_args=None):
        self._take(validate_args, scale=scale)

    mode = property(lambda self: _C.zeros_like(self.scale))

    def icdf(self, prob):
        """The value up to which draws lie with the probability `prob`."""
        return self.base_dist.icdf(0.5 * (prob + 1))

    def cdf(self, value):
        """The probability of draws up to `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return (2 * self.base_dist.cdf(value) - 1).clamp(min=0)


class HalfNormal(_Folded, parameters="scale"):
    """The distribution of |x| where x is normal with mean 0 and standard deviation `scale`."""

    def __init__(self, scale, validate_args=None):
        super().__init__(scale, validate_args)

    def _map(self):
        return Normal(0, self.scale, validate_args=False), [AbsTransform()]

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.square() * (1 - 2 / math.pi))
    log_prob = at_value(formulas.half_normal_log_prob)
    entropy = entropy_of(lambda scale: _HALF_LOG_2PI_E - math.log(2) + scale.log())


class HalfCauchy(_Folded, parameters="scale"):
    """The distribution of |x| where x is Cauchy around 0 with half width `scale`; its mean is inf."""

    def __init__(self, scale, validate_args=None):
        super().__init__(scale, validate_args)

    def _map(self):
        return Cauchy(0, self.scale, validate_args=False), [AbsTransform()]

    mean = variance = property(lambda self: _C.full_like(self.scale, math.inf))
    log_prob = at_value(formulas.half_cauchy_log_prob)
    entropy = entropy_of(lambda scale: math.log(2 * math.pi) + scale.log())


class InverseGamma(Mapped, parameters="concentration rate"):
    """The distribution of 1 / x where x has the gamma distribution of `concentration` and `rate`.

    The mean is inf for concentration <= 1, the variance for concentration <= 2.
    """

    _told = False
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        self._take(validate_args, concentration=concentration, rate=rate)

    def _map(self):
        gamma = Gamma(self.concentration, self.rate, validate_args=False)
        return gamma, [PowerTransform(-_C.ones((), dtype=self.rate.dtype, device=self.rate.device))]

    mode = property(lambda self: self.rate / (self.concentration + 1))
    log_prob = at_value(formulas.inverse_gamma_log_prob)
    entropy = entropy_of(formulas.inverse_gamma_entropy)

    @property
    def mean(self):
        return (self.rate / (self.concentration - 1)).masked_fill(self.concentration <= 1, math.inf)

    @property
    def variance(self):
        a = self.concentration
        return (self.rate.square() / ((a - 1).square() * (a - 2))).masked_fill(a <= 2, math.inf)


class Pareto(Mapped, parameters="scale alpha"):
    """The Pareto distribution (type 1) above `scale` with exponent `alpha`.

    The mean is inf for alpha <= 1, the variance for alpha <= 2.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self._take(validate_args, scale=scale, alpha=alpha)

    def _map(self):
        exponential = Exponential(self.alpha, validate_args=False)
        return exponential, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """[scale, inf)."""
        return constraints.greater_than_eq(self.scale)

    mode = property(lambda self: self.scale)
    log_prob = at_value(formulas.pareto_log_prob)
    entropy = entropy_of(lambda scale, alpha: (scale / alpha).log() + 1 + alpha.reciprocal())

    @property
    def mean(self):
        alpha = self.alpha
        return (alpha * self.scale / (alpha - 1)).masked_fill(alpha <= 1, math.inf)

    @property
    def variance(self):
        alpha = self.alpha
        finite = self.scale.square() * (alpha / ((alpha - 1).square() * (alpha - 2)))
        return finite.masked_fill(alpha <= 2, math.inf)


class Weibull(Mapped, parameters="scale concentration"):
    """The Weibull distribution: its survival function is exp(-(x / scale) ** concentration)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self._take(validate_args, scale=scale, concentration=concentration)

    def _map(self):
        exponential = Exponential(_C.ones_like(self.scale), validate_args=False)
        return exponential, [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]

    concentration_reciprocal = property(lambda self: self.concentration.reciprocal())
    mean = property(lambda self: self.scale * self._moment(1).exp())
    variance = property(lambda self: self.scale.square() * (self._moment(2).exp() - (2 * self._moment(1)).exp()))
    log_prob = at_value(formulas.weibull_log_prob)
    cdf = cdf_of(formulas.weibull_cdf)
    icdf = icdf_of(formulas.weibull_icdf)

    def _moment(self, n):
        """The logarithm of the n-th moment for scale 1."""
        return (1 + n * self.concentration_reciprocal).lgamma()

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1).clamp(min=0) / k).pow(k.reciprocal())

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        r = self.concentration_reciprocal
        return euler_constant * (1 - r) + (self.scale * r).log() + 1


class GeneralizedPareto(Family, parameters="loc scale concentration"):
    """The generalized Pareto distribution of excesses over `loc`; its tail is heavy where `concentration` > 0, and
    bounded by loc - scale / concentration where it is negative.

    The mean is inf for concentration >= 1, the variance for concentration >= 1/2.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """[loc, inf), or [loc, loc - scale / concentration] where concentration is negative."""
        bounded = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, _C.where(self.concentration < 0, bounded, math.inf))

    mode = property(lambda self: self.loc)
    log_prob = at_value(formulas.generalized_pareto_log_prob)
    cdf = cdf_of(formulas.generalized_pareto_cdf)
    icdf = icdf_of(formulas.generalized_pareto_icdf)
    log_survival_function = at_value(formulas.generalized_pareto_log_survival)
    entropy = entropy_of(lambda loc, scale, concentration: scale.log() + concentration + 1)

    def log_cdf(self, value):
        """The logarithm of cdf(value)."""
        return self.cdf(value).log()

    @draws
    def rsample(shape, loc, scale, concentration):
        u = _C.rand(shape, dtype=loc.dtype, device=loc.device)
        return formulas.generalized_pareto_icdf(u, loc, scale, concentration)

    @property
    def mean(self):
        c = self.concentration
        return (self.loc + self.scale / (1 - c)).masked_fill(c >= 1, math.inf)

    @property
    def variance(self):
        c = self.concentration
        finite = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return finite.masked_fill(c >= 0.5, math.inf)
