"""Transforms from unconstrained tensors into the sets of constraints.

`biject_to(constraint)` is a bijective transform from real tensors to the set; `transform_to(constraint)` need not be
bijective and may be cheaper or better behaved (a simplex is reached by softmax).

    >>> D = tessera.distributions
    >>> scale = D.transform_to(D.Normal.arg_constraints["scale"])(tessera.tensor([0.0]))
    >>> scale
    tensor([1.])
"""

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from types of constraints to functions that make a transform of a constraint."""

    def __init__(self):
        self._registry = {}
        super().__init__()

    def __reduce__(self):
        for name, known in (("biject_to", biject_to), ("transform_to", transform_to)):
            if self is known:
                return name  # by name, as what registers with it is
        return super().__reduce__()

    def register(self, constraint, factory=None):
        """Says which `factory(constraint)` makes the transform for a Constraint subclass (or an instance's type).

        Without `factory` this is a decorator of it. Returns the factory.

        Raises: TypeError for what is no constraint.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """The transform for a constraint. Raises: NotImplementedError for types without a factory."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds):
    """A decorator: the factory of both registries for these types."""

    def register(factory):
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _to_real(constraint):
    return transforms.identity_transform


def _to_parts(registry):
    """Registers what is made of other constraints."""

    @registry.register(constraints.independent)
    def to_independent(constraint):
        inner = registry(constraint.base_constraint)
        return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def to_cat(constraint):
        parts = [registry(one) for one in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def to_stack(constraint):
        return transforms.StackTransform([registry(one) for one in constraint.cseq], constraint.dim)


_to_parts(biject_to)
_to_parts(transform_to)


@_both(constraints.greater_than, constraints.greater_than_eq)
def _to_above(constraint):
    exp, bound = transforms.ExpTransform(), constraint.lower_bound
    if _is(bound, 0):
        return exp
    return transforms.ComposeTransform([exp, transforms.AffineTransform(bound, 1)])


@_both(constraints.less_than)
def _to_below(constraint):
    turned = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), turned])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint):
    low, high, sigmoid = constraint.lower_bound, constraint.upper_bound, transforms.SigmoidTransform()
    if _is(low, 0) and _is(high, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(low, high - low)])


def _is(bound, number):
    return isinstance(bound, (int, float)) and bound == number


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint):
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.simplex)
def _onto_simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _to_simplex(constraint):
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _to_lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
def _to_positive_definite(constraint):
    return transforms.PositiveDefiniteTransform()


transform_to.register(constraints.positive_semidefinite, _to_positive_definite)
