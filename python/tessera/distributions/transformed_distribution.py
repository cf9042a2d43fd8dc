"""Distributions of what transforms make of draws."""

import tessera
from tessera._C import Size

from . import constraints
from ._family import Family
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, lazy_property


class TransformedDistribution(Distribution, parameters=""):
    """The distribution of t_n(...t_1(x)) where x has `base_distribution`.

    Args:
        base_distribution: a Distribution.
        transforms: a Transform or a list of them, applied in this order; `log_prob` needs their inverses.
        validate_args: as of Distribution.

    >>> D = tessera.distributions
    >>> log_normal = D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform())
    >>> log_normal.log_prob(tessera.tensor(1.0))
    tensor(-0.9189)

    Raises: ValueError for what is no transform, or for draws of too few dimensions.
    """

    arg_constraints: "dict[str, constraints.Constraint]" = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = _as_list(transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        chain = ComposeTransform(self.transforms)
        needed = chain.domain.event_dim
        if len(base_shape) < needed:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {needed}, but got {base_shape}."
            )
        shape = chain.forward_shape(base_shape)
        origin = chain.inverse_shape(shape)
        if base_shape != origin:  # transforms with parameters of a batch
            keep = len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(origin[: len(origin) - keep])
        more = needed - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        cut = len(shape) - chain.codomain.event_dim - max(-more, 0)
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """The same with the batch shape `batch_shape`: the base distribution is expanded."""
        new = self._get_checked_instance(self._family, _instance)
        new.transforms = self.transforms
        shape = Size(batch_shape) + self.event_shape
        origin = ComposeTransform(self.transforms).inverse_shape(shape)
        new.base_dist = self.base_dist.expand(origin[: len(origin) - len(self.base_dist.event_shape)])
        super(TransformedDistribution, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        """The codomain of the last transform, with this distribution's event dimensions."""
        if not self.transforms:
            return self.base_dist.support
        support, event_dim = self.transforms[-1].codomain, len(self.event_shape)
        more = event_dim - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self):
        """Whether the base distribution's draws have gradients."""
        return self.base_dist.has_rsample

    def _through(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with tessera.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):
        """Draws of that shape with gradients, where `has_rsample`."""
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        """The logarithm of the density: the base's at the origin, less the transforms' log determinants."""
        if self._validate_args:
            self._validate_sample(value)
        event_dim, total, y = len(self.event_shape), 0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            part = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(part, event_dim - transform.domain.event_dim)
            y = x
        of_base = self.base_dist.log_prob(y)
        return total + _sum_rightmost(of_base, event_dim - len(self.base_dist.event_shape))

    def _sign(self):
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def _turned(self, probability):
        """p where the transforms rise, 1 - p where they fall."""
        sign = self._sign()
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value):
        """The probability of draws up to `value`, for monotone transforms (NotImplementedError for others). What the
        base distribution validates is `value` as the transforms take it back."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        """The value up to which draws lie with the probability `value`, for monotone transforms."""
        return self._through(self.base_dist.icdf(self._turned(value)))


def _as_list(transforms):
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(one, Transform) for one in transforms):
        raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
    return transforms


class Mapped(Family, TransformedDistribution):
    """A family with formulas of its own that is a transformed distribution as well.

    `_map()` gives the base distribution and the transforms, which are made when somebody asks for them.
    """

    has_rsample = True
    base_dist = lazy_property(lambda self: self._map()[0])
    transforms = lazy_property(lambda self: self._map()[1])

    def expand(self, batch_shape, _instance=None):
        """The same distribution with parameters that are expanded to `batch_shape`, without a copy."""
        kind = Family if self._names[0] in self.__dict__ else TransformedDistribution
        return kind.expand(self, batch_shape, _instance)

    def _map(self):
        raise NotImplementedError(f"{type(self)} does not say what it is made of")
