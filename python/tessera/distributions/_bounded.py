"""Distributions over intervals and over the circle."""

import math

import tessera
from tessera import _C
from tessera._C import Size

from . import _formulas as formulas
from . import constraints
from ._draws import dirichlet_draws
from ._family import Family, at_value, cdf_of, draws, entropy_of, either, icdf_of, logits_of, probs_of, EitherParameter
from .exp_family import ExponentialFamily
from .transformed_distribution import Mapped
from .transforms import AffineTransform, PowerTransform
from .utils import clamp_probs, euler_constant


class Uniform(Family, parameters="low high"):
    """The uniform distribution over [low, high). Raises: ValueError unless low < high."""

    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self._take(validate_args, low=low, high=high)

    @property
    def arg_constraints(self):
        """Each bound is on its side of the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """[low, high]."""
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.low + self.high) / 2)
    mode = property(lambda self: _C.full_like(self.high, math.nan))
    stddev = property(lambda self: (self.high - self.low) / math.sqrt(12))
    variance = property(lambda self: (self.high - self.low).square() / 12)
    rsample = draws(lambda shape, low, high: low + _C.rand(shape, dtype=low.dtype, device=low.device) * (high - low))
    log_prob = at_value(formulas.uniform_log_prob)
    cdf = cdf_of(lambda value, low, high: ((value - low) / (high - low)).clamp(min=0, max=1))
    icdf = icdf_of(lambda value, low, high: value * (high - low) + low)
    entropy = entropy_of(lambda low, high: (high - low).log())


class _AsDirichlet:
    """A beta distribution as the Dirichlet distribution of two categories; its concentration can be set through it."""

    def __init__(self, beta):
        self._beta = beta

    @property
    def concentration(self):
        return _C.stack([self._beta.concentration1, self._beta.concentration0], -1)

    @concentration.setter
    def concentration(self, value):
        for name, part in zip(("concentration1", "concentration0"), value.unbind(-1)):
            object.__setattr__(self._beta, name, part)  # a prior of gpytorch takes such names for its buffers'

    def __getattr__(self, name):
        return getattr(tessera.distributions.Dirichlet(self.concentration, validate_args=False), name)


class Beta(Family, ExponentialFamily, parameters="concentration1 concentration0"):
    """The beta distribution: x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1), normalised."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    log_prob = at_value(formulas.beta_log_prob)
    entropy = entropy_of(formulas.beta_entropy)
    _natural_params = property(lambda self: (self.concentration1, self.concentration0))
    _dirichlet = property(_AsDirichlet)  # priors of botorch write their parameters there

    def _log_normalizer(self, first, second):
        return first.lgamma() + second.lgamma() - (first + second).lgamma()

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    @property
    def mode(self):
        """The mode: 1 where both concentrations are below 1, as either end is; nan where both are 1."""
        a, b = (self.concentration1 - 1).clamp(min=0), (self.concentration0 - 1).clamp(min=0)
        inner = a / (a + b)
        ends = (self.concentration1 < 1) & (self.concentration0 < 1)
        return _C.where(ends, 1, inner)

    @draws
    def rsample(shape, concentration1, concentration0):
        return dirichlet_draws(_C.stack([concentration1, concentration0], -1)).select(-1, 0)


class Kumaraswamy(Mapped, parameters="concentration1 concentration0"):
    """The Kumaraswamy distribution over (0, 1): its distribution function is
    1 - (1 - x ** concentration1) ** concentration0.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _map(self):
        a, b = self.concentration1, self.concentration0
        unit = Uniform(_C.zeros_like(b), _C.ones_like(b), validate_args=False)
        return unit, [PowerTransform(b.reciprocal()), AffineTransform(loc=1, scale=-1), PowerTransform(a.reciprocal())]

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1).square())
    log_prob = at_value(formulas.kumaraswamy_log_prob)

    def _moment(self, n):
        """E[x ** n] = b B(1 + n / a, b)."""
        part, b = 1 + n / self.concentration1, self.concentration0
        return (part.lgamma() + (1 + b).lgamma() - (part + b).lgamma()).exp()

    @property
    def mode(self):
        """The mode, nan where one of the concentrations is below 1."""
        a, b = self.concentration1, self.concentration0
        return ((a - 1) / (a * b - 1)).pow(a.reciprocal()).masked_fill((a < 1) | (b < 1), math.nan)

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class ContinuousBernoulli(EitherParameter, Family, ExponentialFamily, parameters="logits"):
    """The continuous Bernoulli distribution over [0, 1]: probs ** x * (1 - probs) ** (1 - x), normalised.

    Args:
        probs, logits: one of them.
        lims: between these, around probs = 0.5, moments are computed by a series, and draws are uniform.
        validate_args: as of Distribution.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._lims = lims
        name, value = either(probs, logits)
        self._take(validate_args, **{name: value})
        if name == "probs":  # moments and quantiles at 0 and 1 are those of the nearest numbers inside
            self.probs = clamp_probs(self.probs)

    probs, logits = probs_of(is_binary=True), logits_of(is_binary=True)
    log_prob = at_value(formulas.continuous_bernoulli_log_prob)
    stddev = property(lambda self: self.variance.sqrt())
    _natural_params = property(lambda self: (self.logits,))

    def _expand_into(self, new, batch_shape):
        new._lims = self._lims
        super()._expand_into(new, batch_shape)

    def _uniform_near_half(self, value, result):
        """`result`, but `value` (of a uniform distribution over [0, 1]) between the limits."""
        return _C.where(self._near_half(self.probs), value.clamp(min=0, max=1), result)

    def cdf(self, value):
        """The probability of draws up to `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._uniform_near_half(value, formulas.continuous_bernoulli_cdf(value, self.logits))

    def icdf(self, value):
        """The value up to which draws lie with the probability `value`."""
        return self._uniform_near_half(value, formulas.continuous_bernoulli_icdf(value, self.logits))

    def rsample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape, with gradients."""
        logits = self.logits
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=logits.dtype, device=logits.device))

    def _near_half(self, probs):
        return (probs > self._lims[0]) & (probs < self._lims[1])

    def _log_normalizer(self, logits):
        return formulas.continuous_bernoulli_log_normalizer(logits)

    @property
    def mean(self):
        probs = self.probs
        near = self._near_half(probs)
        safe, x = _C.where(near, 0.25, probs), probs - 0.5
        far = safe / (2 * safe - 1) + 1 / ((-safe).log1p() - safe.log())
        return _C.where(near, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x, far)

    @property
    def variance(self):
        probs = self.probs
        near = self._near_half(probs)
        safe, square = _C.where(near, 0.25, probs), (probs - 0.5).square()
        odds = (-safe).log1p() - safe.log()
        far = safe * (safe - 1) / (1 - 2 * safe).square() + odds.square().reciprocal()
        return _C.where(near, 1 / 12 - (1 / 15 - 128 / 945 * square) * square, far)

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        logits = self.logits
        return formulas.continuous_bernoulli_log_normalizer(logits) - self.mean * logits


class VonMises(Family, parameters="loc concentration"):
    """The von Mises distribution over angles: exp(concentration * cos(x - loc)), normalised.

    Values are angles in radians of any size; draws lie in [-pi, pi) and are computed in float64. `variance` is the
    circular one, 1 - I1 / I0.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self._take(validate_args, loc=loc, concentration=concentration)

    mean = mode = property(lambda self: self.loc)
    log_prob = at_value(formulas.von_mises_log_prob)

    @property
    def variance(self):
        k = self.concentration
        return 1 - _C._special.special_i1e(k) / _C._special.special_i0e(k)

    def sample(self, sample_shape=Size()):
        """Angles of shape sample_shape + batch_shape, by Best and Fisher's rejection (1979)."""
        shape = self._extended_shape(sample_shape)
        with tessera.no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            angles = _accepted_angles(shape, k.expand(shape), _envelope(k))
            return ((angles + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _envelope(k):
    """The parameter r of the wrapped Cauchy distribution from which von Mises angles are proposed."""
    tau = 1 + (1 + 4 * k.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * k)
    return _C.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))


def _accepted_angles(shape, k, r):
    """Angles around 0: rounds of proposals for all elements until each had one accepted; it keeps its last one."""
    angles = _C.zeros(shape, dtype=k.dtype, device=k.device)
    done = _C.zeros(shape, dtype=_C.bool, device=k.device)
    while not done.all():
        first, second, third = _C.rand((3, *shape), dtype=k.dtype, device=k.device).unbind(0)
        turn = (math.pi * first).cos()
        cosine = (1 + r * turn) / (r + turn)
        c = k * (r - cosine)
        accepted = (c * (2 - c) - second > 0) | ((c / second).log() + 1 - c >= 0)
        angles = _C.where(accepted, (third - 0.5).sign() * cosine.acos(), angles)
        done |= accepted
    return angles
