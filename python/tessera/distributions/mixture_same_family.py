"""Mixtures of distributions of one family."""

import tessera
from tessera._C import Size

from . import constraints
from ._categories import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution, parameters=""):
    """A mixture whose weights are a Categorical and whose components are the last batch dimension of a distribution.

    Args:
        mixture_distribution: Categorical with batch_shape B and k categories.
        component_distribution: a Distribution with batch_shape B + (k,).
        validate_args: as of Distribution.

    >>> D = tessera.distributions
    >>> m = D.MixtureSameFamily(D.Categorical(tessera.ones(2)), D.Normal(tessera.tensor([-1.0, 1.0]), 1.0))
    >>> m.mean
    tensor(0.)

    Raises: ValueError for other kinds of distributions, and for batch shapes that do not fit.
    """

    arg_constraints: "dict[str, constraints.Constraint]" = {}
    has_rsample = False

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of torch.distributions.Categorical, "
                f"but was a {type(mixture).__name__}"
            )
        if not isinstance(component, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution, "
                f"but was a {type(component).__name__}"
            )
        weights, parts = mixture.batch_shape, component.batch_shape
        if not parts:
            raise ValueError("`component_distribution.batch_shape` must end in the number of components, but is empty")
        for one, other in zip(reversed(weights), reversed(parts[:-1])):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                    f"`component_distribution.batch_shape`({parts[:-1]})"
                )
        if mixture._num_events != parts[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture._num_events}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({parts[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture, component
        self._num_component, self._event_ndims = parts[-1], len(component.event_shape)
        super().__init__(parts[:-1], component.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """The same with the batch shape `batch_shape`: both distributions are expanded."""
        new = self._get_checked_instance(self._family, _instance)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand(Size(batch_shape) + (self._num_component,))
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        super(MixtureSameFamily, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    @constraints.dependent_property
    def support(self):
        """The components' support, of values without the dimension of components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self):
        """The weights as (..., k, 1, ..., 1), to go with moments of components."""
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    def _expected(self, values):
        """The sum over components of weights times values."""
        return (self._weights() * values).sum(-1 - self._event_ndims)

    mean = property(lambda self: self._expected(self._component_distribution.mean))

    @property
    def variance(self):
        part = self._component_distribution
        apart = part.mean - self.mean.unsqueeze(-1 - self._event_ndims)
        return self._expected(part.variance) + self._expected(apart.square())

    def _to_components(self, value):
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x):
        """The probability of draws up to `x`."""
        return (self._component_distribution.cdf(self._to_components(x)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        """The logarithm of the density or probability at `x`."""
        if self._validate_args:
            self._validate_sample(x)
        of_parts = self._component_distribution.log_prob(self._to_components(x))
        return (of_parts + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + event_shape: one of each component, of which one is taken."""
        with tessera.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            at = drawn.dim() - 1 - self._event_ndims
            index = chosen.reshape(chosen.shape + (1,) * (1 + self._event_ndims))
            sizes = list(drawn.shape)
            sizes[at] = 1
            return drawn.gather(at, index.expand(sizes)).squeeze(at)

    def __repr__(self):
        return f"{type(self).__name__}(\n  {self._mixture_distribution},\n  {self._component_distribution})"
