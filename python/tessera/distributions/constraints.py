"""Sets of numbers, vectors and matrices: where parameters and values of a distribution may lie.

    >>> tessera.distributions.constraints.positive.check(tessera.tensor([-1.0, 2.0]))
    tensor([False,  True])

A constraint has `check(value)`, a bool tensor of the batch's shape; `event_dim`, how many of the last dimensions are
one element of the set; and `is_discrete`. Own ones are subclasses of `Constraint`.
"""

import math

import tessera
from tessera import _C

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "independent",
    "integer_interval",
    "interval",
    "half_open_interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_semidefinite",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

_NO_LOW, _NO_HIGH, _WHOLE = 1, 2, 4  # of `_bounds`: an end that is not within, integers alone


class Constraint:
    """A set; `check(value)` says of each event of a tensor whether it is within.

    Attributes: is_discrete, whether the set is countable; event_dim, the number of dimensions of an element.
    """

    is_discrete = False
    event_dim = 0
    _bounds = None  # (low, high, kind) of plain intervals, for a check in one pass

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "check" in vars(cls) and "_bounds" not in vars(cls):
            cls._bounds = None

    def check(self, value):
        """A bool tensor of value's batch shape: which events satisfy the constraint."""
        raise NotImplementedError(f"{type(self).__name__} does not define check(value)")

    def _holds(self, value):
        """Whether all of a tensor satisfies the constraint."""
        bounds = self._bounds
        if bounds is not None:
            return _within(value, *bounds)
        return bool(self.check(value).all())

    def __reduce_ex__(self, protocol):
        return vars(self).get("_name") or super().__reduce_ex__(protocol)

    def __repr__(self):
        return _shown(self) + "()"


_within = _C._distributions._dist_all_within


def _shown(constraint):
    return type(constraint).__name__.lstrip("_")


def _number(bound):
    """A bound as a float, or None if it is a tensor of more than one element or carries a gradient."""
    return float(bound) if isinstance(bound, (bool, int, float)) else None


class _Bounded(Constraint):
    """An interval; subclasses say in `_ends` which bounds they have and in `_kind` which of these are outside."""

    _ends: "tuple[str, ...]" = ("lower_bound", "upper_bound")
    _kind = 0

    def _set(self, lower_bound=-math.inf, upper_bound=math.inf):
        given = {"lower_bound": lower_bound, "upper_bound": upper_bound}
        for name in self._ends:
            setattr(self, name, given[name])
        low, high = _number(lower_bound), _number(upper_bound)
        self._bounds = None if low is None or high is None else (low, high, self._kind)

    def check(self, value):
        kind, parts = self._kind, []
        if kind & _WHOLE:
            parts.append(value % 1 == 0)
        if "lower_bound" in self._ends:
            parts.append(self.lower_bound < value if kind & _NO_LOW else self.lower_bound <= value)
        if "upper_bound" in self._ends:
            parts.append(value < self.upper_bound if kind & _NO_HIGH else value <= self.upper_bound)
        result = parts[0]
        for part in parts[1:]:
            result = result & part
        return result

    def __repr__(self):
        return f"{_shown(self)}({', '.join(f'{name}={getattr(self, name)}' for name in self._ends)})"


class _Real(Constraint):
    """All real numbers: everything but nan."""

    _bounds = (-math.inf, math.inf, 0)

    def check(self, value):
        return value == value


class _Interval(_Bounded):
    """[lower_bound, upper_bound]; bounds are numbers or tensors."""

    def __init__(self, lower_bound, upper_bound):
        self._set(lower_bound, upper_bound)


class _HalfOpenInterval(_Interval):
    """[lower_bound, upper_bound)."""

    _kind = _NO_HIGH


class _IntegerInterval(_Interval):
    """Integers from lower_bound to upper_bound, both included."""

    _kind, is_discrete = _WHOLE, True


class _GreaterThan(_Bounded):
    """(lower_bound, inf]."""

    _ends, _kind = ("lower_bound",), _NO_LOW

    def __init__(self, lower_bound):
        self._set(lower_bound=lower_bound)


class _GreaterThanEq(_GreaterThan):
    """[lower_bound, inf]."""

    _kind = 0


class _IntegerGreaterThan(_GreaterThan):
    """Integers from lower_bound on."""

    _kind, is_discrete = _WHOLE, True


class _LessThan(_Bounded):
    """[-inf, upper_bound)."""

    _ends, _kind = ("upper_bound",), _NO_HIGH

    def __init__(self, upper_bound):
        self._set(upper_bound=upper_bound)


class _IntegerLessThan(_LessThan):
    """Integers up to upper_bound."""

    _kind, is_discrete = _WHOLE, True


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True
    _bounds = (0.0, 1.0, _WHOLE)

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros with a single 1."""

    is_discrete = True
    event_dim = 1

    def check(self, value):
        return _boolean_check(value) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers whose sum is 1, up to 1e-6."""

    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value):
        return (value == value.tril()).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangular matrices whose diagonal is positive."""

    event_dim = 2

    def check(self, value):
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower Cholesky factors of correlation matrices: their rows have norm 1."""

    event_dim = 2

    def check(self, value):
        norm = value.detach().square().sum(-1).sqrt()
        allowed = 10 * value.shape[-1] * tessera.finfo(value.dtype).eps
        return ((norm - 1).abs() <= allowed).all(-1) & lower_cholesky.check(value)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value):
        rows, columns = value.shape[-2:]
        return _C.full(value.shape[:-2], rows == columns, dtype=_C.bool, device=value.device)


class _Symmetric(_Square):
    """Symmetric matrices, up to 1e-6."""

    def check(self, value):
        square_ones = _Square.check(self, value)
        if value.shape[-2] != value.shape[-1]:
            return square_ones
        return _C.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value):
        symmetric_ones = _Symmetric.check(self, value)
        if not symmetric_ones.all():
            return symmetric_ones
        return (_C._linalg.linalg_eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value):
        symmetric_ones = _Symmetric.check(self, value)
        if not symmetric_ones.all():
            return symmetric_ones
        return _C._linalg.linalg_cholesky_ex(value).info == 0


class _Dependent(Constraint):
    """Of a variable whose set depends on other variables, so that nothing can be checked without these.

    Reading `is_discrete` or `event_dim` raises NotImplementedError unless they were given.
    """

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self):
        return _determined(self._is_discrete, "is_discrete")

    @property
    def event_dim(self):
        return _determined(self._event_dim, "event_dim")

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same with attributes: `dependent(is_discrete=False, event_dim=1)`."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x):
        raise ValueError(f"Cannot determine validity of dependent constraint for a value of shape {tuple(x.shape)}")


def _determined(value, name):
    if value is NotImplemented:
        raise NotImplementedError(f".{name} cannot be determined statically")
    return value


def is_dependent(constraint):
    """Whether a constraint depends on other variables (is `dependent`, or a `dependent_property` of a class)."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A decorator: a property of an object, and of its class a dependent constraint.

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self): ...
    """

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        """The property that computes `fn`."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """`base_constraint` whose last `reinterpreted_batch_ndims` batch dimensions belong to one event."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"base_constraint must be a Constraint, but was {base_constraint!r}")
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ValueError(
                f"reinterpreted_batch_ndims must be an integer >= 0, but was {reinterpreted_batch_ndims!r}"
            )
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self._bounds = base_constraint._bounds
        super().__init__()

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        each, count = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if each.dim() < count:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {self.base_constraint.event_dim + each.dim()}"
            )
        return each.flatten(each.dim() - count).all(-1) if count else each

    def _holds(self, value):
        return value.dim() >= self.event_dim and Constraint._holds(self, value)

    def __repr__(self):
        return f"{_shown(self)}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """`base_constraint` for values that all components of a mixture are asked about: a batch dimension is added."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"base_constraint must be a Constraint, but was {base_constraint!r}")
        self.base_constraint = base_constraint
        super().__init__()

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value):
        """As the components' constraint says: value has the batch and event dimensions of the mixture."""
        before_event = value.dim() - self.event_dim
        if before_event < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return self.base_constraint.check(value.unsqueeze(before_event)).all(-1)

    def __repr__(self):
        return f"{_shown(self)}({self.base_constraint!r})"


class _Parts(Constraint):
    """Constraints of the pieces of a tensor along `dim`; subclasses cut it."""

    def __init__(self, cseq, dim):
        self.cseq, self.dim = list(cseq), dim
        wrong = [one for one in self.cseq if not isinstance(one, Constraint)]
        if wrong or not self.cseq:
            raise TypeError(f"cseq must be a nonempty sequence of Constraints, but holds {wrong or 'nothing'}")
        super().__init__()

    @property
    def is_discrete(self):
        return any(one.is_discrete for one in self.cseq)

    def _axis(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise IndexError(f"dim must be in [{-value.dim()}, {value.dim() - 1}], but was {self.dim}")
        return self.dim


class _Cat(_Parts):
    """Pieces of `lengths` along `dim`, each with its constraint of `cseq`, laid one after the other."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"lengths must be one for each of {len(self.cseq)} constraints, but was {self.lengths}")

    @property
    def event_dim(self):
        return max(one.event_dim for one in self.cseq)

    def check(self, value):
        pieces = _C.split(value, self.lengths, self._axis(value))
        return _C.cat([one.check(piece) for one, piece in zip(self.cseq, pieces)], self.dim)


class _Stack(_Parts):
    """Slices along `dim`, each with its constraint of `cseq`."""

    def __init__(self, cseq, dim=0):
        super().__init__(cseq, dim)

    @property
    def event_dim(self):
        inside = max(one.event_dim for one in self.cseq)
        return inside + 1 if self.dim + inside < 0 else inside

    def check(self, value):
        slices = value.unbind(self._axis(value))
        return _C.stack([one.check(slice) for one, slice in zip(self.cseq, slices)], self.dim)


_boolean_check = _IndependentConstraint(_Boolean(), 1).check

boolean = _Boolean()
cat = _Cat
corr_cholesky = _CorrCholesky()
dependent = _Dependent()
dependent_property = _DependentProperty
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
half_open_interval = _HalfOpenInterval
independent = _IndependentConstraint
integer_interval = _IntegerInterval
interval = _Interval
less_than = _LessThan
lower_cholesky = _LowerCholesky()
lower_triangular = _LowerTriangular()
multinomial = _Multinomial
nonnegative = _GreaterThanEq(0.0)
nonnegative_integer = _IntegerGreaterThan(0)
one_hot = _OneHot()
positive = _GreaterThan(0.0)
positive_definite = _PositiveDefinite()
positive_integer = _IntegerGreaterThan(1)
positive_semidefinite = _PositiveSemidefinite()
real = _Real()
real_vector = _IndependentConstraint(real, 1)
simplex = _Simplex()
square = _Square()
stack = _Stack
symmetric = _Symmetric()
unit_interval = _Interval(0.0, 1.0)

for _name in __all__:
    if isinstance(globals()[_name], Constraint):
        globals()[_name]._name = _name  # pickled and copied by name: `real` stays the one object
