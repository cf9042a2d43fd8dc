"""Maps between constrained spaces, with the logarithm of their Jacobian's determinant.

>>> t = tessera.distributions.transforms.AffineTransform(1.0, 2.0)
>>> y = t(tessera.tensor([0.0, 1.0]))
>>> t.inv(y)
tensor([0., 1.])
>>> t.log_abs_det_jacobian(tessera.tensor([0.0, 1.0]), y)
tensor([0.6931, 0.6931])
"""

import functools
import math
import operator
from weakref import ref

import tessera
from tessera import _C
from tessera._C import Size

from . import constraints
from .utils import _sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]

_pad, _softplus = _C.constant_pad_nd, _C._nn.softplus


class Transform:
    """A differentiable map with an inverse (for maps that are not `bijective`, one of the possible ones).

    Subclasses define `domain`, `codomain` (constraints), `bijective`, `sign` (+1 or -1, of monotone maps of numbers),
    `_call(x)`, `_inverse(y)` and `log_abs_det_jacobian(x, y)`.

    Args:
        cache_size: 1 keeps the last pair, so that `t.inv(t(x)) is x`; 0 keeps nothing.

    Raises: ValueError for another cache_size.
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, but was {cache_size!r}")
        self._cache_size = cache_size
        self._inv = None  # a weak reference to the inverse that was given out last
        if cache_size:
            self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    def __reduce_ex__(self, protocol):
        return "identity_transform" if self is identity_transform else super().__reduce_ex__(protocol)

    @property
    def event_dim(self):
        """The number of dimensions that are mapped together, of maps that keep it."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse map; its own inverse is this object."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = ref(inverse)
        return inverse

    @property
    def sign(self):
        """The sign of the Jacobian's determinant, of monotone maps of numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not define sign")

    def with_cache(self, cache_size=1):
        """The same map with that cache size: this object if it has it."""
        cls, same = type(self), cache_size == self._cache_size
        if not same and cls.__init__ is not Transform.__init__:
            raise NotImplementedError(f"{cls.__name__} has arguments of its own: it has to define with_cache()")
        return self if same else cls(cache_size=cache_size)

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return hash(type(self))

    def __call__(self, x):
        """The image of x."""
        if not self._cache_size:
            return self._call(x)
        known, image = self._cached_x_y
        if x is not known:
            image = self._call(x)
            self._cached_x_y = x, image
        return image

    def _inv_call(self, y):
        if not self._cache_size:
            return self._inverse(y)
        x, known = self._cached_x_y
        if y is not known:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} does not define _call() of shape {tuple(x.shape)}")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} does not define _inverse() of shape {tuple(y.shape)}")

    def log_abs_det_jacobian(self, x, y):
        """log |dy/dx| where y is the image of x; event dimensions are summed."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define log_abs_det_jacobian() of shapes {tuple(x.shape)}, {tuple(y.shape)}"
        )

    def forward_shape(self, shape):
        """The shape of the image of a tensor of this shape."""
        return shape

    def inverse_shape(self, shape):
        """The shape of the origin of a tensor of this shape."""
        return shape

    def __repr__(self):
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a map, which is called through that one, so that both have one cache."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def __getstate__(self):
        return self.__dict__

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __call__(self, x):
        return self._inv._inv_call(x)

    def _call(self, x):
        return self._inv._inverse(x)

    def _inverse(self, y):
        return self._inv._call(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"


# -- maps of numbers ------------------------------------------------------------------------------------------------


class _Parameterless(Transform):
    """A map that is equal to all others of its type."""

    def __eq__(self, other):
        return self is other or (isinstance(other, type(self)) and type(self).__init__ is Transform.__init__)

    __hash__ = Transform.__hash__


class _Rising(_Parameterless):
    """A bijective map of numbers that rises."""

    bijective = True
    sign = +1


class ExpTransform(_Rising):
    """y = exp(x)."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x)), kept within (0, 1)."""

    domain, codomain = constraints.real, constraints.unit_interval

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        y = _within_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return x - 2 * _softplus(x)


def _within_unit(y):
    ends = tessera.finfo(y.dtype)
    return y.clamp(min=ends.tiny, max=1 - ends.eps)


def _clipped_sigmoid(x):  # other libraries import it by this name
    return _within_unit(x.sigmoid())


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x))."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return _softplus(x)

    def _inverse(self, y):
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x, y):
        return -_softplus(-x)


class TanhTransform(_Rising):
    """y = tanh(x); near the ends a composition of affine and sigmoid maps keeps more digits of the inverse."""

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return 2 * (math.log(2) - x - _softplus(-2 * x))


class PowerTransform(Transform):
    """y = x ** exponent of positive numbers; exponent is a number or a tensor that broadcasts."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.exponent = _C.tensor(exponent) if isinstance(exponent, (int, float)) else exponent

    sign = property(lambda self: self.exponent.sign())

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = Transform.__hash__

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return tessera.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape):
        return tessera.broadcast_shapes(shape, self.exponent.shape)


class AbsTransform(_Parameterless):
    """y = |x|; the inverse gives the positive origin."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc, scale: numbers, or tensors that broadcast.
        event_dim: the number of dimensions of one event: 0 for numbers, 1 for vectors ...
        cache_size: as of `Transform`.
    """

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)

    def _space(self):
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """Real numbers, or tensors of them with `event_dim` dimensions."""
        return self._space()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """As `domain`."""
        return self._space()

    @property
    def sign(self):
        """The sign of scale: a number or a tensor."""
        if isinstance(self.scale, (int, float)):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = Transform.__hash__

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        number = isinstance(self.scale, (int, float))
        each = _C.full_like(x, math.log(abs(self.scale))) if number else self.scale.abs().log().expand(x.shape)
        return _sum_rightmost(each, self._event_dim)

    def forward_shape(self, shape):
        return tessera.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    def inverse_shape(self, shape):
        return self.forward_shape(shape)


def _same(a, b):
    """Whether two numbers or tensors are equal everywhere."""
    equal = a == b
    return bool(equal.all()) if hasattr(equal, "all") else equal


class CumulativeDistributionTransform(Transform):
    """y = distribution.cdf(x), of a distribution of numbers: to numbers in [0, 1]."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


# -- maps made of others --------------------------------------------------------------------------------------------


class ComposeTransform(Transform):
    """Maps that are applied one after the other, the first of `parts` first."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    def _ends(self):
        """(domain, codomain), with the event dimensions that the whole chain needs."""
        if not self.parts:
            return constraints.real, constraints.real
        domain, codomain = self.parts[0].domain, self.parts[-1].codomain
        enters, leaves = self._event_dims()
        if enters > domain.event_dim:
            domain = constraints.independent(domain, enters - domain.event_dim)
        if leaves > codomain.event_dim:
            codomain = constraints.independent(codomain, leaves - codomain.event_dim)
        return domain, codomain

    def _event_dims(self):
        """Event dimensions before and after the chain: wide enough for each part."""
        offset = need = 0  # how much more dimensions an event has at a part than at the beginning
        for part in self.parts:
            need = max(need, part.domain.event_dim - offset)
            offset += part.codomain.event_dim - part.domain.event_dim
        return need, need + offset

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The first part's, with as many event dimensions as the widest part."""
        return self._ends()[0]

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The last part's, with as many event dimensions as the widest part."""
        return self._ends()[1]

    bijective = property(lambda self: all(part.bijective for part in self.parts))

    @property
    def sign(self):
        """The product of the parts' signs."""
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self):
        """The inverses in reverse order; its own inverse is this object."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, inverse._inv = ref(inverse), ref(self)
        return inverse

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        """The image of x under all parts."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        """The sum of the parts' log determinants."""
        if not self.parts:
            return _C.zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        total, event_dim = 0, self._event_dims()[0]
        for part, before, after in zip(self.parts, between, between[1:]):
            total = total + _sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        return functools.reduce(lambda now, part: part.forward_shape(now), self.parts, shape)

    def inverse_shape(self, shape):
        return functools.reduce(lambda now, part: part.inverse_shape(now), reversed(self.parts), shape)

    def __repr__(self):
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """`base_transform` with `reinterpreted_batch_ndims` more dimensions in each event: log determinants are summed."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The base's, with more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The base's, with more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    def _call(self, x):
        self._check(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y):
        self._check(y, self.codomain)
        return self.base_transform.inv(y)

    def _check(self, value, space):
        if value.dim() < space.event_dim:
            raise ValueError(
                f"Too few dimensions on input: {self!r} takes events of {space.event_dim}, but got {tuple(value.shape)}"
            )

    def log_abs_det_jacobian(self, x, y):
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Gives events of `in_shape` the shape `out_shape`. Raises: ValueError if these hold other numbers of elements."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"in_shape, out_shape have different numbers of elements: {tuple(in_shape)} and {tuple(out_shape)}"
            )
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        """Real tensors of as many dimensions as in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        """Real tensors of as many dimensions as out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return _exchange(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return _exchange(shape, self.out_shape, self.in_shape)


def _exchange(shape, old, new):
    """`shape` with `new` in the place of its last dimensions `old`."""
    cut = len(shape) - len(old)
    if cut < 0:
        raise ValueError(f"Too few dimensions on input: expected a shape that ends in {tuple(old)}, got {tuple(shape)}")
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}")
    return Size(shape[:cut]) + new


class _Pieces(Transform):
    """Maps of pieces along `dim`, which are cut by `_cut` and put together by `_join`."""

    transforms: "list[Transform]"

    def _take(self, tseq, dim, cache_size):
        tseq = list(tseq)
        wrong = [one for one in tseq if not isinstance(one, Transform)]
        if wrong:
            raise TypeError(f"tseq must hold Transforms, but holds {wrong}")
        Transform.__init__(self, cache_size=cache_size)
        self.transforms = [one.with_cache(cache_size) for one in tseq] if cache_size else tseq
        self.dim = dim

    bijective = property(lambda self: all(one.bijective for one in self.transforms))

    def _call(self, x):
        return self._join([one(piece) for one, piece in zip(self.transforms, self._cut(x))])

    def _inverse(self, y):
        return self._join([one.inv(piece) for one, piece in zip(self.transforms, self._cut(y))])


class CatTransform(_Pieces):
    """Maps of pieces of `lengths` (1 each by default) along `dim`."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        self._take(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"lengths must be one for each of {len(self.transforms)} transforms, but was {lengths}")

    event_dim = property(lambda self: max(one.event_dim for one in self.transforms))
    length = property(lambda self: sum(self.lengths))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _cut(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != self.length:
            raise ValueError(f"Expected size {self.length} in dimension {self.dim}, but got shape {tuple(value.shape)}")
        return value.split(self.lengths, self.dim)

    def _join(self, pieces):
        return _C.cat(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        parts, event_dim = [], self.event_dim
        for one, before, after in zip(self.transforms, self._cut(x), self._cut(y)):
            part = one.log_abs_det_jacobian(before, after)
            parts.append(_sum_rightmost(part, event_dim - one.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += event_dim
        return _C.cat(parts, dim=dim) if dim < 0 else sum(parts)

    @constraints.dependent_property
    def domain(self):
        """The parts' domains, laid one after the other."""
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        """The parts' codomains, laid one after the other."""
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)


class StackTransform(_Pieces):
    """A map for each slice along `dim`."""

    def __init__(self, tseq, dim=0, cache_size=0):
        self._take(tseq, dim, cache_size)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _cut(self, value):
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"Expected size {len(self.transforms)} in dimension {self.dim}, but got shape {tuple(value.shape)}"
            )
        return value.unbind(self.dim)

    def _join(self, pieces):
        return _C.stack(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        cut = zip(self.transforms, self._cut(x), self._cut(y))
        return _C.stack([one.log_abs_det_jacobian(before, after) for one, before, after in cut], dim=self.dim)

    @constraints.dependent_property
    def domain(self):
        """The parts' domains, slice by slice."""
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        """The parts' codomains, slice by slice."""
        return constraints.stack([one.codomain for one in self.transforms], self.dim)


# -- maps of vectors and matrices -----------------------------------------------------------------------------------


class SoftmaxTransform(_Parameterless):
    """Vectors to the simplex: y = exp(x) / sum(exp(x)). Not bijective: the inverse is log(y)."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        return _vector(shape)

    def inverse_shape(self, shape):
        return _vector(shape)


def _vector(shape):
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input: expected vectors, got a shape without dimensions")
    return shape


def _with_last(shape, change):
    """A vector shape with a last dimension that is longer by `change`."""
    return Size(_vector(shape)[:-1]) + (shape[-1] + change,)


class StickBreakingTransform(_Parameterless):
    """Vectors of n numbers to the simplex of n + 1: each number says which part of the rest of a stick is broken off.

    0 goes to equal parts.
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    @staticmethod
    def _equal(n, like):
        """log(n), ..., log(1): what makes equal parts of zeros."""
        return _C.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x):
        share = _within_unit((x - self._equal(x.shape[-1], x)).sigmoid())
        left = (1 - share).cumprod(-1)
        return _pad(share, [0, 1], 1.0) * _pad(left, [1, 0], 1.0)

    def _inverse(self, y):
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=tessera.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._equal(parts.shape[-1], y)

    def log_abs_det_jacobian(self, x, y):
        # each share is sigmoid(z), and what is left is multiplied by sigmoid(-z)
        z = x - self._equal(x.shape[-1], x)
        return (y[..., :-1].log() - _softplus(z)).sum(-1)

    def forward_shape(self, shape):
        return _with_last(shape, 1)

    def inverse_shape(self, shape):
        return _with_last(shape, -1)


class LowerCholeskyTransform(_Parameterless):
    """Square matrices to lower triangular ones with a positive diagonal: its logarithm is the argument's diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + _C.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y):
        return y.tril(-1) + _C.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(_Parameterless):
    """Square matrices to positive definite ones: L L^T where L is LowerCholeskyTransform's result."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(_C._linalg.linalg_cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors (n, n) of correlation matrices: tanh of them are the
    canonical partial correlations, row by row.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = tessera.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial.square()).sqrt().cumprod(-1)  # of a row's norm, after each column
        ones = _C.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + ones) * _pad(left[..., :-1], [1, 0], 1.0)

    def _inverse(self, y):
        left = _pad(1 - y.square().cumsum(-1)[..., :-1], [1, 0], 1.0)
        return (tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        # `intermediates`, what a call could have kept: nothing is kept, as y has all that is needed.
        if intermediates is not None:
            raise ValueError("CorrCholeskyTransform keeps no intermediates: leave them out")
        left = 1 - y.square().cumsum(-1)
        breaking = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return breaking + 2 * (math.log(2) - x - _softplus(-2 * x)).sum(-1)

    def forward_shape(self, shape):
        n = round((1 + math.sqrt(1 + 8 * int(_vector(shape)[-1]))) / 2)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"Input is not a flattened lower-diagonal number: {shape[-1]}")
        return Size(shape[:-1]) + (n, n)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError(f"Too few dimensions on input: expected matrices, got {tuple(shape)}")
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: {tuple(shape)}")
        return Size(shape[:-2]) + (shape[-1] * (shape[-1] - 1) // 2,)
