"""Distributions over 0, 1, 2, ..."""

import math

import tessera
from tessera import _C
from tessera._C import Size

from . import _formulas as formulas
from . import constraints
from ._draws import gamma_draws
from ._family import (
    EitherParameter,
    Family,
    at_value,
    draws,
    enumerated,
    entropy_of,
    logits_of,
    probs_of,
)
from .exp_family import ExponentialFamily
from .utils import shape_of_numbers


class Bernoulli(EitherParameter, Family, ExponentialFamily, parameters="logits"):
    """1 with probability `probs` and else 0; `logits` are the log odds log(probs / (1 - probs)). One of them is given.

    >>> tessera.distributions.Bernoulli(0.25).log_prob(tessera.tensor(1.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_either(validate_args, probs, logits)

    probs, logits = probs_of(is_binary=True), logits_of(is_binary=True)
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    log_prob = at_value(formulas.bernoulli_log_prob)
    entropy = entropy_of(formulas.bernoulli_entropy)
    _natural_params = property(lambda self: (self.logits,))

    def _log_normalizer(self, logits):
        return _C._nn.softplus(logits)

    @property
    def mode(self):
        """The more probable value, nan where both are equally probable."""
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape."""
        with tessera.no_grad():
            return _C.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def enumerate_support(self, expand=True):
        """0 and 1, of shape (2,) + batch_shape, or (2, 1, ..., 1) unless `expand`."""
        return enumerated(self, _C.arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(EitherParameter, Family, parameters="probs"):
    """The number of failures before the first success of trials that succeed with probability `probs`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_either(validate_args, probs, logits)
        if self._validate_args and probs is not None:
            positive = self.probs > 0
            if not positive.all():
                raise ValueError(
                    f"Expected parameter probs ({type(probs).__name__} of shape {tuple(self.probs.shape)}) of "
                    f"distribution {self!r} to be positive but found invalid values:\n{self.probs[~positive]}"
                )

    probs, logits = probs_of(is_binary=True), logits_of(is_binary=True)
    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: _C.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)
    log_prob = at_value(formulas.geometric_log_prob)
    entropy = entropy_of(formulas.geometric_entropy)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape."""
        probs, shape = self.probs.detach(), self._extended_shape(sample_shape)
        u = _C.empty(shape, dtype=probs.dtype, device=probs.device).uniform_(tessera.finfo(probs.dtype).tiny, 1)
        return (u.log() / (-probs).log1p()).floor()


class Poisson(Family, ExponentialFamily, parameters="rate"):
    """The Poisson distribution of counts with mean `rate` (which may be 0)."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self._take(validate_args, rate=rate)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    sample = draws(lambda shape, rate: _C.poisson(rate), differentiable=False)
    log_prob = at_value(formulas.poisson_log_prob)
    _natural_params = property(lambda self: (self.rate.log(),))

    def _log_normalizer(self, log_rate):
        return log_rate.exp()


class _Trials(EitherParameter, Family):
    """Families of a total count and the probability of a success."""

    def __init__(self, total_count, probs, logits, validate_args):
        self._take_either(validate_args, probs, logits, total_count=total_count)

    def _take(self, validate_args, total_count, **given):
        """As for others, but that a count of an integer dtype takes that of the probabilities."""
        (parameter,) = given.values()
        if hasattr(total_count, "dtype"):
            kind = getattr(parameter, "dtype", None) or tessera.get_default_dtype()
            total_count = total_count.to(kind)
            if shape_of_numbers((parameter,)):
                given = {name: _C.tensor(value, dtype=kind) for name, value in given.items()}
        super()._take(validate_args, **given, total_count=total_count)

    probs, logits = probs_of(is_binary=True), logits_of(is_binary=True)


class Binomial(_Trials, parameters="total_count logits"):
    """The number of successes of `total_count` trials that succeed with probability `probs` (log odds `logits`)."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """Integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    log_prob = at_value(formulas.binomial_log_prob)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape."""
        shape = self._extended_shape(sample_shape)
        return _C.binomial(*(one.detach().expand(shape) for one in (self.total_count, self.probs)))

    def _the_count(self, wanted_by):
        """The count that all elements have, as an integer."""
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{wanted_by}`.")
        return count

    def enumerate_support(self, expand=True):
        """0 ... total_count, of shape (total_count + 1,) + batch_shape, or (total_count + 1, 1, ...) unless `expand`.

        Raises: NotImplementedError where counts differ.
        """
        count = self._the_count("enumerate_support")
        values = _C.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return enumerated(self, values, expand)

    def entropy(self):
        """The entropy in nats, of batch_shape: a sum over all values.

        Raises: NotImplementedError where counts differ.
        """
        self._the_count("entropy")
        logs = formulas.binomial_log_prob(self.enumerate_support(False), self.total_count, self.logits)
        return -(logs.exp() * logs).sum(0)


class NegativeBinomial(_Trials, parameters="total_count logits"):
    """The number of successes of trials that succeed with probability `probs` before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        super().__init__(total_count, probs, logits, validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())
    log_prob = at_value(formulas.negative_binomial_log_prob)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape: Poisson ones, whose rates are drawn from a gamma distribution."""
        shape = self._extended_shape(sample_shape)
        with tessera.no_grad():
            return _C.poisson(gamma_draws(self.total_count.expand(shape), (-self.logits).exp().expand(shape)))
