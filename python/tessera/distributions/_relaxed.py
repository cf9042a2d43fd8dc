"""Continuous relaxations of Bernoulli and categorical variables (Maddison et al., 2017; Jang et al., 2017)."""

import math

from tessera import _C

from . import _formulas as formulas
from . import constraints
from ._categories import _Categories
from ._family import EitherParameter, Family, at_value, either, logits_of, probs_of
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs, probs_to_logits


class LogitRelaxedBernoulli(EitherParameter, Family, parameters="temperature logits"):
    """The log odds of RelaxedBernoulli: logistic noise around `logits`, divided by `temperature`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        name, value = either(probs, logits)
        (value,) = broadcast_all(value)
        self.temperature, self.__dict__[name] = temperature, value
        if not hasattr(temperature, "dtype"):
            self.temperature = _C.tensor(temperature, dtype=value.dtype, device=value.device)
        Distribution.__init__(self, value.shape, validate_args=validate_args)

    probs, logits = probs_of(is_binary=True), logits_of(is_binary=True)
    log_prob = at_value(formulas.logit_relaxed_bernoulli_log_prob)

    def _expand_into(self, new, batch_shape):
        new.temperature = self.temperature
        super()._expand_into(new, batch_shape)

    def rsample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape, with gradients."""
        uniform = _C.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return (probs_to_logits(uniform, True) + probs_to_logits(self.probs, True)) / self.temperature


class ExpRelaxedCategorical(_Categories, parameters="logits"):
    """The logarithm of RelaxedOneHotCategorical: normalised Gumbel noise around `logits`, over `temperature`."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._take_vector(validate_args, probs, logits, has_events=True)

    def _expand_into(self, new, batch_shape):
        new.temperature = self.temperature
        super()._expand_into(new, batch_shape)

    def rsample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + (K,), with gradients."""
        shape = self._extended_shape(sample_shape)
        noise = clamp_probs(_C.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        return ((self.logits.expand(shape) - (-noise.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value):
        """The logarithm of the density at `value`, logarithms of points of the simplex."""
        if self._validate_args:
            self._validate_sample(value)
        count, temperature = self._num_events, self.temperature
        log_temperature = temperature.log() if hasattr(temperature, "log") else math.log(temperature)
        score = (self.logits - value * temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(count) + (count - 1) * log_temperature


class _Relaxed(TransformedDistribution):
    """A relaxed variable: its parameters are those of the distribution that it is made of."""

    has_rsample = True
    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)

    def _relax(self, inner, outer, temperature, either_one, validate_args):
        inner_one = inner(temperature, *either_one, validate_args=validate_args)
        TransformedDistribution.__init__(self, inner_one, outer(), validate_args=validate_args)


class RelaxedBernoulli(_Relaxed, parameters="temperature logits"):
    """Numbers in (0, 1) that approach Bernoulli draws as `temperature` goes to 0, with gradients to the parameters.

    One of `probs` and `logits` is given.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._relax(LogitRelaxedBernoulli, SigmoidTransform, temperature, (probs, logits), validate_args)


class RelaxedOneHotCategorical(_Relaxed, parameters="temperature logits"):
    """Points of the simplex that approach one-hot draws as `temperature` goes to 0, with gradients."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._relax(ExpRelaxedCategorical, ExpTransform, temperature, (probs, logits), validate_args)
