"""Translations of indexing: gathers, scatters, masks, searches."""

import math

import tessera
from tessera.onnx._build import Value, alike_in_shape
from tessera.onnx._operators.pointwise import truth, work
from tessera.onnx._table import TABLE, aten
from tessera.onnx._types import BOOL, INT64


def _positions(b, x):
    """The places of what is not zero, as a matrix with a row for each of them."""
    if x.shape == ():
        x = b.unsqueeze(x, 0)
    return b.transpose(b.NonZero(truth(b, x)), [1, 0])


@aten("nonzero argwhere")
def nonzero(b, self):
    found = _positions(b, self)
    return found if self.rank else b.slice(found, 1, 0, 0)  # places of numbers have no coordinate


@aten("nonzero_numpy")
def nonzero_numpy(b, self):
    found = b.NonZero(truth(b, self))
    return tuple(b.op("Gather", found, b.value(i), axis=0) for i in range(max(self.rank, 1)))


def _indices(b, indices):
    """[(dimension, Value of whole numbers)], masks as the columns of their places."""
    found, dim = [], 0
    for index in indices:
        if index is None:
            dim += 1
        elif index.dtype in (BOOL, tessera.uint8):
            places = b.NonZero(truth(b, index))
            for i in range(index.rank):
                found.append((dim, b.op("Gather", places, b.value(i), axis=0)))
                found[-1][1].val = _line()
                dim += 1
        else:
            found.append((dim, b.to(index, INT64) if index.dtype not in (INT64, tessera.int32) else index))
            dim += 1
    return found


def _line(_made=[]):  # noqa: B006 - one for all
    """What stands for vectors of any length."""
    if not _made:
        from tessera.onnx._build import _meta

        _made.append(_meta(INT64, 1))
    return _made[0]


def _in_front(b, self, indices):
    """(self with the indexed dimensions in front, indices as rows for GatherND, their shape's rank, dims)."""
    dims = [d for d, _ in indices]
    order = dims + [i for i in range(self.rank) if i not in dims]
    rank = max(v.rank for _, v in indices)
    first = b.to(indices[0][1], INT64)
    if len(indices) == 1:
        stacked = b.unsqueeze(first, -1)
    else:
        values = [b.to(v, INT64) for _, v in indices]
        shapes = {str(v.shape) for _, v in indices}
        if len(shapes) > 1 or any(v.val is _line() for _, v in indices):
            whole = values[0]
            for v in values[1:]:
                whole = whole + v
            shape = b.Shape(whole)
            values = [b.Expand(v, shape) for v in values]
        stacked = b.op("Concat", *[b.unsqueeze(v, -1) for v in values], axis=-1)
    return b.transpose(self, order), stacked, rank, dims


@aten("index _unsafe_index")
def index(b, self, indices):
    found = _indices(b, indices)
    if not found:
        return self
    if len(found) == 1:
        return b.op("Gather", self, found[0][1], axis=found[0][0])
    moved, stacked, rank, dims = _in_front(b, self, found)
    made = b.GatherND(moved, stacked)
    if dims != list(range(dims[0], dims[0] + len(dims))) or dims[0] == 0:
        return made
    rest = self.rank - len(dims)
    order = [*range(rank, rank + dims[0]), *range(rank), *range(rank + dims[0], rank + rest)]
    return b.transpose(made, order)


@aten("index_put _unsafe_index_put _index_put_impl")
def index_put(b, self, indices, values, accumulate=False, unsafe=False):
    given = [(i, v) for i, v in enumerate(indices) if v is not None]
    values = b.to(values, self.dtype)
    if len(given) == 1 and given[0][1].dtype in (BOOL, tessera.uint8) and not accumulate:
        at, mask = given[0]
        if values.shape is not None and math.prod(s if isinstance(s, int) else 2 for s in values.shape) == 1:
            behind = self.rank - at - mask.rank
            mask = truth(b, mask)
            mask = b.unsqueeze(mask, *range(mask.rank, mask.rank + behind)) if behind else mask
            return b.Where(mask, b.reshape(values, []), self)
    found = _indices(b, indices)
    if not found:
        return self + values if accumulate else TABLE["aten::copy"](b, self, values)
    moved, stacked, rank, dims = _in_front(b, self, found)
    rest = self.rank - len(dims)
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0] and values.shape:
        values = _values_in_front(b, values, rank, dims[0], rest)
    shape = b.Shape(b.GatherND(moved, stacked))
    made = b.ScatterND(moved, stacked, b.Expand(values, shape), reduction="add" if accumulate else None)
    order = dims + [i for i in range(self.rank) if i not in dims]
    return b.transpose(made, [order.index(i) for i in range(self.rank)])


def _values_in_front(b, values, rank, before, rest):
    """Values that lie as a program writes them, with the dimensions of the index in front."""
    n = rank + rest
    if values.rank < n:
        values = b.unsqueeze(values, *range(n - values.rank))
    return b.transpose(values, [*range(before, before + rank), *range(before), *range(before + rank, n)])


@aten("index_select")
def index_select(b, self, dim, index):
    if self.rank == 0:
        return self
    index = b.Reshape(index, [-1]) if index.shape == () else index
    return b.op("Gather", self, index, axis=dim)


@aten("gather")
def gather(b, self, dim, index, sparse_grad=False):
    if self.shape == ():
        return b.Expand(self, b.Shape(index))
    if 0 in index.shape:
        return b.full(b.Shape(index), 0, self.dtype)
    scalar = index.shape == ()
    index = b.to(index, INT64)
    made = b.op("GatherElements", self, b.unsqueeze(index, 0) if scalar else index, axis=dim)
    return b.squeeze(made, 0) if scalar else made


@aten("take")
def take(b, self, index):
    return b.op("Gather", b.Reshape(self, [-1]), index, axis=0)


@aten("take_along_dim")
def take_along_dim(b, self, indices, dim=None):
    if dim is None:
        return b.op("Gather", b.Reshape(self, [-1]), b.Reshape(indices, [-1]), axis=0)
    dim %= self.rank
    one = [b.dim(indices, i) if i != dim else b.dim(self, i) for i in range(self.rank)]
    two = [b.dim(self, i) if i != dim else b.dim(indices, i) for i in range(self.rank)]
    return b.op("GatherElements", b.expand(self, one), b.expand(indices, two), axis=dim)


def _cut_to(b, src, index):
    """The part of src that an index of fewer elements reads."""
    if alike_in_shape(src, index):
        return src
    n = index.rank
    return b.op("Slice", src, b.ints([0] * n), b.cached("Shape", index), b.ints(range(n)))


_REDUCTIONS = {
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
    "mean": "add",
}


@aten("scatter")
def scatter(b, self, dim, index, src=None, value=None, reduce=None):
    if src is None:
        src = b.Expand(b.to(value, self.dtype), b.cached("Shape", index))
    else:
        src = _cut_to(b, b.to(src, self.dtype), index)
    return _scattered(b, self, dim, index, src, None if reduce is None else _REDUCTIONS[reduce])


def _scattered(b, x, dim, index, src, reduction=None):
    """Numbers are scattered as vectors of one element."""
    if not x.rank:
        one = b.op("ScatterElements", *[b.Reshape(v, [1]) for v in (x, index, src)], axis=0, reduction=reduction)
        return b.reshape(one, [])
    return b.op("ScatterElements", x, index, src, axis=dim, reduction=reduction)


@aten("scatter_add")
def scatter_add(b, self, dim, index, src):
    return _scattered(b, self, dim, index, _cut_to(b, src, index), "add")


def _neutral(dtype, reduce):
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype == BOOL:
        return reduce == "amin"
    limits = tessera.finfo(dtype) if dtype.is_floating_point else tessera.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


@aten("scatter_reduce")
def scatter_reduce(b, self, dim, index, src, reduce, include_self=True):
    src = _cut_to(b, src, index)
    start = self
    if not include_self:
        neutral = b.Expand(b.value(_neutral(self.dtype, reduce), self.dtype), b.cached("Shape", index))
        start = _scattered(b, like_of(self, self), dim, index, neutral)
    made = _scattered(b, like_of(start, self), dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return made
    ones = like_of(b.full(b.cached("Shape", self), 1, self.dtype), self)
    each = lambda number: b.full(b.cached("Shape", index), number, self.dtype)  # noqa: E731
    if not include_self:
        ones = like_of(_scattered(b, ones, dim, index, each(0)), self)
    count = _scattered(b, ones, dim, index, each(1), "add")
    return TABLE["aten::div"](b, made, b.Max(count, b.value(1, self.dtype)),
                              None if self.dtype.is_floating_point else "floor")  # fmt: skip


@aten("index_reduce")
def index_reduce(b, self, dim, index, source, reduce, include_self=True):
    rest = (reduce, include_self)
    if not self.rank:
        index, source = (like_of(b.reshape(v, []), self) for v in (index, source))
        return scatter_reduce(b, self, 0, index, source, *rest)
    return scatter_reduce(b, self, dim, like_of(_along(b, self, dim, index, source), source), source, *rest)


def like_of(value, other):
    """A value that is known to have another one's shape."""
    value.val = other.val if value.val is None else value.val
    return value


def _along(b, self, dim, index, like):
    """A vector of indices, for all elements beside it."""
    rank = max(self.rank, 1)  # a number is as a vector of one
    dim %= rank
    index = b.reshape(b.to(index, INT64), [-1] + [1] * (rank - dim - 1))
    return b.Expand(index, b.Shape(like))


def _as_vector(b, self):
    """(a tensor that has a dimension, what gives a result the shape of `self` again)"""
    return (self, lambda made: made) if self.rank else (b.Reshape(self, [1]), lambda made: b.Reshape(made, []))


def _placed(b, self, dim, index, source, **how):
    x, back = _as_vector(b, self)
    source = source if self.rank else b.Reshape(source, [-1])
    return back(b.op("ScatterElements", x, _along(b, self, dim, index, source), source, axis=dim, **how))


@aten("index_add")
def index_add(b, self, dim, index, source, alpha=1):
    source = source if alpha == 1 else source * b.value(alpha, source.dtype)
    return _placed(b, self, dim, index, source, reduction="add")


@aten("index_copy")
def index_copy(b, self, dim, index, source):
    return _placed(b, self, dim, index, source)


@aten("index_fill")
def index_fill(b, self, dim, index, value):
    like = b.op("Gather", _as_vector(b, self)[0], b.Reshape(index, [-1]), axis=dim)
    return _placed(b, self, dim, index, b.Expand(b.to(value, self.dtype), b.Shape(like)))


@aten("masked_select")
def masked_select(b, self, mask):
    self, mask = (x if x.rank else b.Reshape(x, [1]) for x in (self, truth(b, mask)))
    both = b.Shape(b.And(mask, b.full(b.Shape(self), True, BOOL)))
    return b.GatherND(b.Expand(self, both), _positions(b, b.Expand(mask, both)))


@aten("masked_scatter")
def masked_scatter(b, self, mask, source):
    mask = truth(b, mask)
    if not alike_in_shape(self, mask):
        both = b.Shape(b.And(mask, b.full(b.Shape(self), True, BOOL)))
        self, mask = b.Expand(self, both), b.Expand(mask, both)
    elif not self.rank:
        return b.Where(mask, b.op("Gather", b.Reshape(source, [-1]), b.value(0), axis=0), self)
    places = _positions(b, mask)
    n = b.op("Gather", b.Shape(places), b.value(0), axis=0)
    return b.ScatterND(self, places, b.slice(b.Reshape(source, [-1]), 0, 0, n))


@aten("embedding")
def embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return b.op("Gather", weight, indices, axis=0)


@aten("embedding_bag _embedding_bag _embedding_bag_forward_only")
def embedding_bag(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    offsets = b.slice(offsets, 0, 0, -1) if include_last_offset else offsets
    taken = b.op("Gather", weight, indices, axis=0)
    at = b.op("Range", b.value(0), b.value(b.dim(indices, 0)), b.value(1))
    bag = b.reduce("ReduceSum", b.to(b.GreaterOrEqual(b.unsqueeze(at, 1), b.unsqueeze(b.to(offsets, INT64), 0)), INT64),
                   [1]) - 1  # fmt: skip
    bags = b.op("Range", b.value(0), b.op("Gather", b.Shape(offsets), b.value(0), axis=0), b.value(1))
    inside = b.Equal(b.unsqueeze(bags, 1), b.unsqueeze(bag, 0))
    if padding_idx is not None and padding_idx >= 0:
        inside = b.And(inside, b.unsqueeze(b.Not(b.Equal(indices, padding_idx)), 0))
    if mode == 2:
        each = b.Where(b.unsqueeze(inside, 2), b.unsqueeze(taken, 0), b.value(-math.inf, weight.dtype))
        made = b.reduce("ReduceMax", each, [1])
        made = b.Where(b.IsInf(made), 0, made)
    else:
        taken = taken if per_sample_weights is None else taken * b.unsqueeze(per_sample_weights, 1)
        share = b.to(inside, weight.dtype)
        made = b.MatMul(share, taken)
        if mode == 1:
            made = made / b.Max(b.reduce("ReduceSum", share, [1], True), b.value(1, weight.dtype))
    return made, None, None, None


@aten("one_hot")
def one_hot(b, self, num_classes=-1):
    depth = num_classes
    if not isinstance(depth, Value) and depth == -1:
        depth = b.reduce("ReduceMax", self, None) + 1
    index = self if self.rank else b.Reshape(self, [1])
    made = b.op("OneHot", index, b.reshape(b.to(depth, INT64), [1]), b.const([0, 1], INT64), axis=-1, dtype=INT64)
    return made if self.rank else b.squeeze(made, 0)


def _searched(b, sorted_sequence, values, right, out_int32):
    one, two = b.alike(values, sorted_sequence)
    one = b.value(one) if not isinstance(one, Value) else one
    n = one.rank
    boundaries = b.unsqueeze(two, -2) if sorted_sequence.rank > 1 else b.reshape(two, [1] * n + [-1])
    below = b.op("LessOrEqual" if right else "Less", boundaries, b.unsqueeze(one, -1))
    return b.to(b.reduce("ReduceSum", b.to(below, INT64), [-1]), tessera.int32 if out_int32 else INT64)


@aten("searchsorted")
def searchsorted(b, sorted_sequence, self, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        raise NotImplementedError("searchsorted with a sorter")
    return _searched(b, sorted_sequence, _valued(b, self), right or side == "right", out_int32)


@aten("bucketize")
def bucketize(b, self, boundaries, out_int32=False, right=False):
    return _searched(b, boundaries, _valued(b, self), right, out_int32)


def _valued(b, x):
    if isinstance(x, Value):
        return x
    return b.value(x)


@aten("isin")
def isin(b, elements=None, test_elements=None, element=None, test_element=None, assume_unique=False, invert=False):
    one = _valued(b, element if elements is None else elements)
    two = _valued(b, test_element if test_elements is None else test_elements)
    one, two = b.alike(one, two)
    same = b.Equal(b.unsqueeze(one, -1), b.Reshape(two, [-1]))
    found = truth(b, b.reduce("ReduceMax", b.to(same, tessera.int32), [-1]))
    return b.Not(found) if invert else found


@aten("_unique2 unique_dim _unique unique_consecutive")
def unique(b, self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    made, _, inverse, counts = b.op("Unique", self, axis=dim, sorted=1, outputs=4)
    if dim is None and self.shape is not None:
        inverse = b.Reshape(inverse, b.Shape(self))
    return made, inverse, counts


@aten("cartesian_prod")
def cartesian_prod(b, tensors):
    n = len(tensors)
    grids = TABLE["aten::meshgrid"](b, tensors)
    return b.op("Concat", *[b.Reshape(g, [-1, 1]) for g in grids], axis=1) if n > 1 else tensors[0]


@aten("histc")
def histc(b, self, bins=100, min=0, max=0):
    if min == max:
        raise NotImplementedError("histc whose range is that of the data")
    (x,) = work(b, self)
    width = (max - min) / bins
    at = b.Min(b.Floor((x - float(min)) / width), b.value(float(bins - 1), x.dtype))
    inside = b.And(b.GreaterOrEqual(x, float(min)), b.LessOrEqual(x, float(max)))
    ids = b.value([*range(bins)])
    same = b.And(b.Equal(b.unsqueeze(b.Reshape(b.to(at, INT64), [-1]), 1), b.unsqueeze(ids, 0)),
                 b.unsqueeze(b.Reshape(inside, [-1]), 1))  # fmt: skip
    return b.reduce("ReduceSum", b.to(same, x.dtype), [0])
