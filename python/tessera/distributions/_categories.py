"""Distributions over categories: their number, one-hot vectors, counts of them."""

import math

import tessera
from tessera import _C
from tessera._C import Size

from . import _formulas as formulas
from . import constraints
from ._family import EitherParameter, Family, at_value, either, enumerated, entropy_of, logits_of, probs_of
from .distribution import Distribution

_PARAMETERS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class _Categories(EitherParameter, Family):
    """Families of `probs` (..., number of categories), which are normalised, or of `logits`, one of which is given."""

    arg_constraints = _PARAMETERS
    probs, logits = probs_of(is_binary=False), logits_of(is_binary=False)

    def _take_vector(self, validate_args, probs, logits, has_events):
        name, value = either(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            value = value / value.sum(-1, keepdim=True)
        else:
            value = value - value.logsumexp(-1, keepdim=True)
        self.__dict__[name] = value
        self._num_events, shape = value.shape[-1], value.shape
        Distribution.__init__(self, shape[:-1], shape[-1:] if has_events else Size(), validate_args)

    def _expand_into(self, new, batch_shape):
        new._num_events = self._num_events
        super()._expand_into(new, batch_shape)

    def _numbers(self, sample_shape):
        """Numbers of categories, of shape sample_shape + batch_shape."""
        shape = Size(sample_shape)
        drawn = _C.multinomial(self.probs.reshape(-1, self._num_events), shape.numel(), True)
        return drawn.t().reshape(shape + self._batch_shape)


def _taken(value, logits):
    """The elements of normalised logits (..., K) that numbers of categories name."""
    value, batch = value.long(), logits.shape[:-1]
    if value.shape != batch:
        shape = tessera.broadcast_shapes(value.shape, batch)
        value, logits = value.expand(shape), logits.expand((*shape, logits.shape[-1]))
    return logits.gather(-1, value.unsqueeze(-1)).squeeze(-1)


class Categorical(_Categories, parameters="logits"):
    """Numbers of categories 0 ... K - 1 (int64), with probabilities `probs` (..., K), or log probabilities `logits`.

    >>> m = tessera.distributions.Categorical(tessera.tensor([0.25, 0.25, 0.5]))
    >>> m.log_prob(tessera.tensor(2))
    tensor(-0.6931)
    """

    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_vector(validate_args, probs, logits, has_events=False)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        """Integers from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    mean = variance = property(
        lambda self: _C.full(self._batch_shape, math.nan, dtype=self.probs.dtype, device=self.probs.device)
    )
    mode = property(lambda self: self._param.argmax(-1))
    log_prob = at_value(_taken)
    entropy = entropy_of(formulas.categorical_entropy)

    def sample(self, sample_shape=Size()):
        """Draws (int64) of shape sample_shape + batch_shape."""
        with tessera.no_grad():
            return self._numbers(sample_shape)

    def enumerate_support(self, expand=True):
        """0 ... K - 1 (int64), of shape (K,) + batch_shape, or (K, 1, ..., 1) unless `expand`."""
        return enumerated(self, _C.arange(self._num_events, dtype=_C.int64, device=self._param.device), expand)


class OneHotCategorical(_Categories, parameters="logits"):
    """One-hot vectors of K categories with probabilities `probs` (..., K), or log probabilities `logits`."""

    _told = False
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take_vector(validate_args, probs, logits, has_events=True)

    mean = property(lambda self: self.probs)
    mode = property(lambda self: _C._nn.one_hot(self.probs.argmax(-1), self._num_events).to(self.probs.dtype))
    variance = property(lambda self: self.probs * (1 - self.probs))
    entropy = entropy_of(formulas.categorical_entropy)

    @property
    def _categorical(self):
        own = self.__dict__
        return Categorical(**{name: own[name] for name in ("probs", "logits") if name in own}, validate_args=False)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + (K,), of the dtype of the probabilities."""
        with tessera.no_grad():
            return _C._nn.one_hot(self._numbers(sample_shape), self._num_events).to(self.probs.dtype)

    def log_prob(self, value):
        """The logarithm of the probability of one-hot vectors `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return _taken(value.argmax(-1), self.logits)

    def enumerate_support(self, expand=True):
        """All one-hot vectors, of shape (K,) + batch_shape + (K,), or (K, 1, ..., K) unless `expand`."""
        count, batch = self._num_events, self._batch_shape
        values = _C.eye(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((count,) + (1,) * len(batch) + (count,))
        return values.expand((count, *batch, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical, parameters="logits"):
    """OneHotCategorical whose draws have the gradients of the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        """One-hot draws of shape sample_shape + batch_shape + (K,) with the gradients of `probs`."""
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())


class Multinomial(_Categories, parameters="logits"):
    """Counts of K categories over `total_count` (an integer) draws with probabilities `probs` (..., K), or `logits`."""

    _told = False

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: it must be an int, but was {type(total_count).__name__}"
            )
        if total_count < 0:
            raise ValueError(f"total_count must be at least 0, but was {total_count}")
        self.total_count = total_count
        self._take_vector(validate_args, probs, logits, has_events=True)

    def _expand_into(self, new, batch_shape):
        new.total_count = self.total_count
        super()._expand_into(new, batch_shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        """Vectors of counts whose sum is at most total_count."""
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    log_prob = at_value(formulas.multinomial_log_prob)

    def sample(self, sample_shape=Size()):
        """Counts of shape sample_shape + batch_shape + (K,), of the dtype of the probabilities."""
        with tessera.no_grad():
            drawn = self._numbers((self.total_count, *sample_shape)).movedim(0, -1)
            ones = _C.ones(drawn.shape, dtype=self.probs.dtype, device=self.probs.device)
            return ones.new_zeros(self._extended_shape(sample_shape)).scatter_add_(-1, drawn, ones)

    def entropy(self):
        """The entropy in nats, of batch_shape: over the binomial distribution of each count."""
        n, probs = self.total_count, self.probs
        counts = _C.arange(1, n + 1, dtype=probs.dtype, device=probs.device).view((-1,) + (1,) * probs.dim())
        logits = probs.log() - (-probs).log1p()
        weights = formulas.binomial_log_prob(counts, probs.new_full((), float(n)), logits).exp()
        per_draw = formulas.categorical_entropy(self.logits)
        return n * per_draw - math.lgamma(n + 1) + (weights * (counts + 1).lgamma()).sum((0, -1))
