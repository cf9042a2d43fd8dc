"""Distributions over the simplex."""

from tessera import _C

from . import _formulas as formulas
from . import constraints
from ._draws import dirichlet_draws
from ._family import Family, at_value, draws, entropy_of
from ._real_line import Normal
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform


class Dirichlet(Family, ExponentialFamily, parameters="concentration"):
    """The Dirichlet distribution over the simplex, with `concentration` (..., number of categories)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration, shape = concentration, concentration.shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, keepdim=True))
    rsample = draws(lambda shape, concentration: dirichlet_draws(concentration))
    log_prob = at_value(formulas.dirichlet_log_prob)
    entropy = entropy_of(formulas.dirichlet_entropy)
    _natural_params = property(lambda self: (self.concentration,))

    def _log_normalizer(self, concentration):
        return concentration.lgamma().sum(-1) - concentration.sum(-1).lgamma()

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    @property
    def mode(self):
        """The point of highest density; the first corner where all concentrations are below 1, as all are modes."""
        less = (self.concentration - 1).clamp(min=0)
        corner = _C.eye(1, less.shape[-1], dtype=less.dtype, device=less.device)[0]
        below = (self.concentration < 1).all(-1, keepdim=True)
        return _C.where(below, corner, less / less.sum(-1, keepdim=True))


class LogisticNormal(TransformedDistribution, parameters="loc scale"):
    """The distribution over the simplex of StickBreakingTransform of normal vectors with `loc` and `scale` (..., n)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        normal = Normal(loc, scale, validate_args=validate_args)
        vectors = normal if normal.batch_shape else normal.expand((1,))
        TransformedDistribution.__init__(self, vectors, StickBreakingTransform(), validate_args)

    loc = property(lambda self: self._normal().loc)
    scale = property(lambda self: self._normal().scale)

    def _normal(self):
        return self.base_dist.base_dist
