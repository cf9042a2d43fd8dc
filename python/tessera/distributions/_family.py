"""How a family of distributions is declared: its parameters, and formulas of them.

    class Laplace(Family, parameters="loc scale"):
        arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
        support = constraints.real
        has_rsample = True

        def __init__(self, loc, scale, validate_args=None):
            self._take(validate_args, loc=loc, scale=scale)

        mean = mode = property(lambda self: self.loc)
        log_prob = at_value(formulas.laplace_log_prob)
        entropy = of_parameters(lambda loc, scale: 1 + math.log(2) + scale.log())

`parameters` are what formulas get, in this order, besides the value. What is not declared raises NotImplementedError.
A parameter's last `event_dim` dimensions, those of its constraint, are of one event; the others are the batch.
"""

import tessera
from tessera._C import Size

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Family(Distribution):
    """Distributions that the tensors named by `parameters` describe."""

    def _take(self, validate_args, event_shape=Size(), **given):
        """The work of a constructor: brings the parameters of elementwise families to one shape, and keeps them."""
        tensors = broadcast_all(*given.values())
        self.__dict__.update(zip(given, tensors))
        Distribution.__init__(self, tensors[0].shape, event_shape, validate_args)

    def _take_either(self, validate_args, probs, logits, **given):
        """The same for families of `probs` or `logits`, of which one is given."""
        name, value = either(probs, logits)
        self._take(validate_args, **{name: value}, **given)

    def expand(self, batch_shape, _instance=None):
        """The same distribution with parameters that are expanded to `batch_shape`, without a copy."""
        new = self._get_checked_instance(self._family, _instance)
        self._expand_into(new, Size(batch_shape))
        Distribution.__init__(new, Size(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new, batch_shape):
        """Gives `new` what self is made of, expanded."""
        own, arg_constraints = self.__dict__, self._family.arg_constraints
        arg_constraints = arg_constraints if isinstance(arg_constraints, dict) else self.arg_constraints
        for name, constraint in arg_constraints.items():
            if name in own:
                value = own[name]
                new.__dict__[name] = value.expand(batch_shape + value.shape[value.dim() - constraint.event_dim :])


def either(probs, logits):
    """("probs", probs) or ("logits", logits), the one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


def at_value(formula, named="log_prob"):
    """A method (self, value) that checks the value and computes formula(value, *parameters).

    Where nothing is checked, the value may be a number.
    """

    def method(self, value):
        if self._validate_args:
            self._validate_sample(value)
        parameters = [getattr(self, name) for name in self._names]
        if not isinstance(value, tessera.Tensor):
            value = parameters[0].new_tensor(value)
        return formula(value, *parameters)

    method.__name__ = named
    method.__doc__ = getattr(Distribution, named).__doc__
    return method


def cdf_of(formula):
    """The method cdf(self, value)."""
    return at_value(formula, "cdf")


def icdf_of(formula):
    """The method icdf(self, value), of probabilities: they are not checked."""

    def icdf(self, value):
        return formula(value, *[getattr(self, name) for name in self._names])

    icdf.__doc__ = Distribution.icdf.__doc__
    return icdf


def entropy_of(formula):
    """The method entropy(self): formula(*parameters)."""

    def entropy(self):
        return formula(*[getattr(self, name) for name in self._names])

    entropy.__doc__ = Distribution.entropy.__doc__
    return entropy


def draws(sampler, differentiable=True):
    """The method rsample (or sample, without gradients): sampler(shape, *expanded parameters)."""

    def parameters(self, sample_shape):
        shape = self._extended_shape(sample_shape)
        return shape, [getattr(self, name).expand(shape) for name in self._names]

    def rsample(self, sample_shape=Size()):
        shape, values = parameters(self, sample_shape)
        return sampler(shape, *values)

    def sample(self, sample_shape=Size()):
        with tessera.no_grad():
            return rsample(self, sample_shape)

    method = rsample if differentiable else sample
    method.__doc__ = getattr(Distribution, method.__name__).__doc__
    return method


def probs_of(is_binary):
    """The property `probs` of a family that may have been given logits."""
    return lazy_property(lambda self: logits_to_probs(self.logits, is_binary=is_binary))


def logits_of(is_binary):
    """The property `logits` of a family that may have been given probs."""
    return lazy_property(lambda self: probs_to_logits(self.probs, is_binary=is_binary))


class EitherParameter:
    """What families of `probs` or `logits` have besides: the one that was given, and its shape."""

    @property
    def _param(self):
        own = self.__dict__
        return own["probs"] if "probs" in own else own["logits"]

    @property
    def param_shape(self):
        """The shape of the parameter (tessera.Size): batch_shape, and the number of categories where there are any."""
        return self._param.size()


def enumerated(self, values, expand):
    """Values (n,) of a discrete scalar family as (n, 1, ..., 1), or expanded to (n,) + batch_shape."""
    shape = self._batch_shape
    values = values.view((-1,) + (1,) * len(shape))
    return values.expand((-1, *shape)) if expand else values
