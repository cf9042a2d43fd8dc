"""Distributions over the real line."""

import math

import tessera
from tessera import _C

from . import _formulas as formulas
from . import constraints
from ._bounded import Uniform
from ._draws import chi2_draws
from ._family import Family, at_value, cdf_of, draws, entropy_of, icdf_of
from .exp_family import ExponentialFamily
from .transformed_distribution import Mapped
from .transforms import AffineTransform, ExpTransform
from .utils import _standard_normal, euler_constant

_HALF_LOG_2PI_E = 0.5 * (1 + math.log(2 * math.pi))


def _location_scale(draw):
    """A sampler: loc + scale times draws of a standard distribution."""
    return draws(lambda shape, loc, scale: loc + scale * draw(shape, loc))


class Normal(Family, ExponentialFamily, parameters="loc scale"):
    """The normal distribution with mean `loc` and standard deviation `scale`, tensors that broadcast, or numbers.

    >>> m = tessera.distributions.Normal(tessera.tensor([0.0]), tessera.tensor([1.0]))
    >>> m.log_prob(tessera.tensor([0.0]))
    tensor([-0.9189])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc, scale, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale)

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.square())
    rsample = _location_scale(lambda shape, like: _standard_normal(shape, like.dtype, like.device))
    sample = draws(lambda shape, loc, scale: _C.normal(loc, scale), differentiable=False)
    log_prob = at_value(formulas.normal_log_prob)
    cdf = cdf_of(formulas.normal_cdf)
    icdf = icdf_of(formulas.normal_icdf)
    entropy = entropy_of(lambda loc, scale: _HALF_LOG_2PI_E + scale.log())

    @property
    def _natural_params(self):
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, first, second):
        return -0.25 * first.square() / second + 0.5 * (-math.pi / second).log()


class Laplace(Family, parameters="loc scale"):
    """The Laplace distribution around `loc`: exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale)

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.sqrt(2) * self.scale)
    variance = property(lambda self: 2 * self.scale.square())
    log_prob = at_value(formulas.laplace_log_prob)
    cdf = cdf_of(formulas.laplace_cdf)
    icdf = icdf_of(formulas.laplace_icdf)
    entropy = entropy_of(lambda loc, scale: 1 + math.log(2) + scale.log())

    @_location_scale
    def rsample(shape, like):
        u = _C.empty(shape, dtype=like.dtype, device=like.device).uniform_(tessera.finfo(like.dtype).eps - 1, 1)
        return -u.sign() * (-u.abs()).log1p()


class Cauchy(Family, parameters="loc scale"):
    """The Cauchy (Lorentz) distribution around its median `loc`, with half width `scale`; it has no mean."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale)

    mean = property(lambda self: _C.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: _C.full_like(self.loc, math.inf))
    rsample = _location_scale(lambda shape, like: _C.empty(shape, dtype=like.dtype, device=like.device).cauchy_())
    log_prob = at_value(formulas.cauchy_log_prob)
    cdf = cdf_of(formulas.cauchy_cdf)
    icdf = icdf_of(formulas.cauchy_icdf)
    entropy = entropy_of(lambda loc, scale: math.log(4 * math.pi) + scale.log())


class Gumbel(Mapped, parameters="loc scale"):
    """The Gumbel distribution (of maxima): its distribution function is exp(-exp(-(x - loc) / scale)), its mode loc."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale)

    def _map(self):
        ends = tessera.finfo(self.loc.dtype)
        low, high = _C.full_like(self.loc, ends.tiny), _C.full_like(self.loc, 1 - ends.eps)
        down = AffineTransform(loc=0, scale=-_C.ones_like(self.scale))
        return Uniform(low, high, validate_args=False), [
            ExpTransform().inv,
            down,
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.square())
    log_prob = at_value(formulas.gumbel_log_prob)
    cdf = cdf_of(formulas.gumbel_cdf)
    icdf = icdf_of(formulas.gumbel_icdf)
    entropy = entropy_of(lambda loc, scale: scale.log() + 1 + euler_constant)

    @_location_scale
    def rsample(shape, like):
        ends = tessera.finfo(like.dtype)
        u = _C.rand(shape, dtype=like.dtype, device=like.device)
        return -(-(u * (1 - ends.eps - ends.tiny) + ends.tiny).log()).log()


class StudentT(Family, parameters="df loc scale"):
    """Student's t distribution with `df` degrees of freedom, shifted to `loc` and stretched by `scale`.

    The mean exists for df > 1 (else nan), the variance for df > 2 (inf for 1 < df <= 2, else nan).
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._take(validate_args, df=df, loc=loc, scale=scale)

    mean = property(lambda self: self.loc.masked_fill(self.df <= 1, math.nan))
    mode = property(lambda self: self.loc)
    log_prob = at_value(formulas.student_t_log_prob)

    @property
    def variance(self):
        df = self.df
        finite = self.scale.square() * (df / (df - 2))
        return finite.masked_fill(df <= 2, math.inf).masked_fill(df <= 1, math.nan)

    @draws
    def rsample(shape, df, loc, scale):
        normal = _standard_normal(shape, df.dtype, df.device)
        return loc + scale * (normal * (chi2_draws(df) / df).rsqrt())

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        return formulas.student_t_entropy(self.df, self.scale)
