"""Batch dimensions as dimensions of one event."""

from tessera._C import Size

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost


class Independent(Distribution, parameters=""):
    """`base_distribution` whose last `reinterpreted_batch_ndims` batch dimensions are event dimensions.

    Log densities and entropies are sums over them.

    >>> D = tessera.distributions
    >>> D.Independent(D.Normal(tessera.zeros(3), 1.0), 1).log_prob(tessera.zeros(3))
    tensor(-2.7568)

    Raises: ValueError if there are fewer batch dimensions.
    """

    arg_constraints: "dict[str, constraints.Constraint]" = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if count > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {count} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        cut = len(batch) - count
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """The same with the batch shape `batch_shape`: the base distribution is expanded."""
        new, count = self._get_checked_instance(self._family, _instance), self.reinterpreted_batch_ndims
        new.base_dist = self.base_dist.expand(Size(batch_shape) + self.event_shape[:count])
        new.reinterpreted_batch_ndims = count
        super(Independent, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def has_enumerate_support(self):
        """Whether the base's values can be listed, which needs that no dimensions are joined."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        """The base's support, with the event's dimensions."""
        inner, count = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, count) if count else inner

    def sample(self, sample_shape=Size()):
        """Draws of the base distribution."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Draws of the base distribution, with gradients."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        """The base's log densities, summed over the joined dimensions."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        """The base's entropies, summed over the joined dimensions."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        """The base's values. Raises: NotImplementedError where dimensions are joined: there are too many."""
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
