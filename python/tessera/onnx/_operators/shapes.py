"""Translations of operators that move elements: views, joins, pieces, pads."""

import math
import sys

import tessera
from tessera.onnx._build import Value
from tessera.onnx._operators.pointwise import work
from tessera.onnx._table import TABLE, aten
from tessera.onnx._types import BOOL, INT64

_END = sys.maxsize


def shaped(b, x, sizes):
    """A value in the given sizes; those of the trace's result where they are all known."""
    out = b.out
    if isinstance(out, tessera.Tensor) and all(isinstance(s, int) for s in out.shape):
        sizes = list(out.shape)
    return b.reshape(x, sizes)


@aten("view reshape _unsafe_view _reshape_alias view_copy")
def view(b, self, size=None, shape=None, dtype=None, stride=None):
    if dtype is not None:
        raise NotImplementedError("view as another dtype")
    return shaped(b, self, size if shape is None else shape)


@aten("view_as reshape_as")
def view_as(b, self, other):
    return b.reshape(self, b.dims(other))


@aten("flatten")
def flatten(b, self, start_dim=0, end_dim=-1):
    if self.rank == 0:
        return b.reshape(self, [1])
    first, last = start_dim % self.rank, end_dim % self.rank
    sizes = b.dims(self)
    inner = sizes[first : last + 1]
    if any(isinstance(s, Value) for s in inner):
        if (
            any(isinstance(s, Value) for s in sizes[:first] + sizes[last + 1 :])
            or 0 in sizes[:first] + sizes[last + 1 :]
        ):
            joined = b.reduce("ReduceProd", b.ints(inner), None)
        else:
            joined = -1
    else:
        joined = math.prod(inner)
    return b.reshape(self, [*sizes[:first], joined, *sizes[last + 1 :]])


@aten("ravel")
def ravel(b, self):
    return b.Reshape(self, [-1])


@aten("unflatten")
def unflatten(b, self, dim, sizes):
    dim, before = dim % self.rank, b.dims(self)
    made = [*before[:dim], *sizes, *before[dim + 1 :]]
    made = shaped(b, self, made)
    made.note = self.note
    return made


@aten("squeeze squeeze_copy")
def squeeze(b, self, dim=None):
    shape = self.shape
    axes = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [a % max(len(shape), 1) for a in axes]
    axes = [a for a in axes if shape and isinstance(shape[a], int) and shape[a] == 1]
    return b.squeeze(self, *axes) if axes else self


@aten("unsqueeze unsqueeze_copy")
def unsqueeze(b, self, dim):
    return b.unsqueeze(self, dim)


@aten("transpose swapaxes swapdims transpose_copy")
def transpose(b, self, dim0=None, dim1=None, axis0=None, axis1=None):
    one, two = (axis0, axis1) if dim0 is None else (dim0, dim1)
    if self.rank == 0:
        return self
    order = list(range(self.rank))
    one, two = one % self.rank, two % self.rank
    order[one], order[two] = order[two], order[one]
    return b.transpose(self, order)


@aten("permute permute_copy")
def permute(b, self, dims):
    return b.transpose(self, [d % self.rank for d in dims])


@aten("t numpy_T t_copy")
def t(b, self):
    return b.transpose(self, range(self.rank)[::-1])


@aten("mT adjoint matrix_H mH")
def m_t(b, self):
    return transpose(b, self, -1, -2)


@aten("movedim moveaxis")
def movedim(b, self, source, destination):
    n = self.rank
    source = [s % n for s in ([source] if isinstance(source, int) else source)]
    destination = [d % n for d in ([destination] if isinstance(destination, int) else destination)]
    rest = iter(i for i in range(n) if i not in source)
    order = [source[destination.index(i)] if i in destination else next(rest) for i in range(n)]
    return b.transpose(self, order)


@aten("expand expand_copy broadcast_to")
def expand(b, self, size, implicit=False):
    more = len(size) - self.rank
    sizes = []
    for i, s in enumerate(size):
        keep = isinstance(s, int) and s == -1
        sizes.append((1 if i < more else b.dim(self, i - more)) if keep else s)
    if all(isinstance(s, int) for s in (*self.shape, *sizes)) and list(self.shape) == sizes:
        return self
    return b.expand(self, sizes)


@aten("expand_as")
def expand_as(b, self, other):
    return b.Expand(self, b.Shape(other))


@aten("broadcast_tensors")
def broadcast_tensors(b, tensors):
    outs = b.out
    return tuple(_broadcast(b, x, tensors, o) for x, o in zip(tensors, outs))


def _broadcast(b, x, tensors, out):
    if all(isinstance(s, int) for s in out.shape):
        return b.expand(x, list(out.shape))
    for other in tensors:
        x = b.Expand(x, b.cached("Shape", other))
    return x


@aten("repeat")
def repeat(b, self, repeats):
    x = b.reshape(self, [1] * (len(repeats) - self.rank) + b.dims(self)) if len(repeats) > self.rank else self
    return b.Tile(x, b.ints(repeats))


@aten("tile")
def tile(b, self, dims):
    return repeat(b, self, [1] * (self.rank - len(dims)) + list(dims))


@aten("repeat_interleave")
def repeat_interleave(b, self=None, repeats=None, dim=None, output_size=None):
    if self is None:
        self, repeats, dim = b.op("Range", b.value(0), b.value(b.dim(repeats, 0)), b.value(1)), repeats, 0
        self.val = tessera.empty(1, dtype=INT64, device="meta")
    if dim is None:
        self, dim, n = b.Reshape(self, [-1]), 0, None
    else:
        dim, n = dim % self.rank, b.dim(self, dim)
    if isinstance(repeats, Value) and repeats.shape != ():
        # the element that place i of the result comes from: how many ends of runs lie at or before i
        ends = b.CumSum(b.to(repeats, INT64), b.value(0))
        last = b.op("Gather", ends, b.value(-1), axis=0)
        places = b.unsqueeze(b.op("Range", b.value(0), last, b.value(1)), 1)
        at = b.reduce("ReduceSum", b.to(b.GreaterOrEqual(places, b.unsqueeze(ends, 0)), INT64), [1])
        return b.op("Gather", self, at, axis=dim)
    if n is None:
        return b.Reshape(b.Tile(b.unsqueeze(self, 1), b.ints([1, repeats])), [-1])
    sizes = b.dims(self)
    tiled = b.Tile(b.unsqueeze(self, dim + 1), b.ints([1] * (dim + 1) + [repeats] + [1] * (len(sizes) - dim - 1)))
    joined = n * repeats if not isinstance(n, Value) and not isinstance(repeats, Value) else b.to(n, INT64) * b.to(
        repeats, INT64
    )  # fmt: skip
    return b.reshape(tiled, [*sizes[:dim], joined, *sizes[dim + 1 :]])


# --- joins ---


@aten("cat concat concatenate")
def cat(b, tensors, dim=0):
    out = b.out
    if len(tensors) > 1 and isinstance(out, tessera.Tensor):
        tensors = [t for t in tensors if not (_is_empty(t) and out.dim() != 1)]
    values = b.alike(*tensors, dtype=b.out_dtype)
    return values[0] if len(values) == 1 else b.op("Concat", *values, axis=dim)


def _is_empty(t):
    return t.shape is not None and len(t.shape) == 1 and isinstance(t.shape[0], int) and t.shape[0] == 0


@aten("stack")
def stack(b, tensors, dim=0):
    values = b.alike(*tensors, dtype=b.out_dtype)
    return b.op("Concat", *[b.unsqueeze(v, dim) for v in values], axis=dim)


def _at_least(b, x, n):
    if x.rank >= n:
        return x
    if n == 3:
        return b.unsqueeze(x, *{0: (0, 1, 2), 1: (0, 2), 2: (2,)}[x.rank])
    return b.unsqueeze(x, *range(n - x.rank))


def _joined(axis, n, column=False):
    def translate(b, tensors):
        if column:
            made = [b.unsqueeze(x, 1) if x.rank == 1 else _at_least(b, x, 2) for x in tensors]
        else:
            made = [_at_least(b, x, n) for x in tensors]
        made = b.alike(*made, dtype=b.out_dtype)
        return b.op("Concat", *made, axis=0 if n == 1 and tensors[0].rank < 2 and not column else axis)

    return translate


for _name, _args in (("hstack", (1, 1)), ("vstack", (0, 2)), ("row_stack", (0, 2)), ("dstack", (2, 3)),
                     ("column_stack", (1, 1, True))):  # fmt: skip
    TABLE["aten::" + _name] = _joined(*_args)


for _n in (1, 2, 3):
    TABLE[f"aten::atleast_{_n}d"] = lambda b, self=None, tensors=None, n=_n: (
        _at_least(b, self, n) if tensors is None else tuple(_at_least(b, x, n) for x in tensors)
    )


@aten("meshgrid")
def meshgrid(b, tensors, indexing="ij"):
    n, made = len(tensors), []
    tensors = [b.unsqueeze(x, 0) if x.rank == 0 else x for x in tensors]
    sizes = [b.dim(x, 0) for x in tensors]
    for i, x in enumerate(tensors):
        grid = b.expand(b.unsqueeze(x, *[j for j in range(n) if j != i]), sizes)
        made.append(b.transpose(grid, [1, 0, *range(2, n)]) if indexing == "xy" and n > 1 else grid)
    return tuple(made)


# --- pieces ---


def _known(b, x, dim):
    n = b.dim(x, dim)
    return n if isinstance(n, int) else None


@aten("split split_with_sizes split_copy split_with_sizes_copy unsafe_split unsafe_split_with_sizes")
def split(b, self, split_size=None, dim=0, split_sizes=None):
    sizes = split_size if split_sizes is None else split_sizes
    n, outs = _known(b, self, dim), b.out
    if not isinstance(sizes, (list, tuple)):
        number = len(outs) if isinstance(outs, (list, tuple)) else None
        if n is not None and isinstance(sizes, int):
            sizes = [min(sizes, n - i) for i in range(0, n, max(sizes, 1))] or [0]
        elif number:
            return _cut(b, self, sizes, number, dim)
        else:
            raise NotImplementedError("split of a dimension whose size may differ into pieces of one size")
    made = b.split(self, sizes, dim)
    if len(made) == 1:
        made = (b.Identity(self),)
        made[0].note = self.note
    return made


def _cut(b, self, size, number, dim):
    """Pieces of one size, the last of what is left."""
    size = b.to(size, INT64)
    ends = [size * i if i else b.value(0) for i in range(number)] + [b.value(_END)]
    return tuple(b.slice(self, dim, ends[i], ends[i + 1]) for i in range(number))


@aten("chunk unsafe_chunk")
def chunk(b, self, chunks, dim=0):
    n, outs = _known(b, self, dim), b.out
    if n is None:
        whole = b.to(b.dim(self, dim), INT64)
        number = len(outs) if isinstance(outs, (list, tuple)) else chunks
        return _cut(b, self, (whole + (chunks - 1)) / chunks, number, dim)
    return split(b, self, -(-n // chunks) or 1, dim)


@aten("tensor_split")
def tensor_split(b, self, sections=None, indices=None, dim=0, tensor_indices_or_sections=None):
    n = _known(b, self, dim)
    if n is None or tensor_indices_or_sections is not None:
        raise NotImplementedError("tensor_split of a dimension whose size may differ")
    if indices is not None:
        marks = [0, *[min(i % n if i < 0 else i, n) for i in indices], n]
        sizes = [max(q - p, 0) for p, q in zip(marks, marks[1:])]
    else:
        sizes = [n // sections + (i < n % sections) for i in range(sections)]
    return b.split(self, sizes, dim)


@aten("unbind unbind_copy")
def unbind(b, self, dim=0):
    n = _known(b, self, dim)
    if n is None:
        raise NotImplementedError("unbind of a dimension whose size may differ")
    return tuple(b.op("Gather", self, b.value(i), axis=dim) for i in range(n))


@aten("select select_copy")
def select(b, self, dim, index):
    return b.op("Gather", self, b.to(index, INT64), axis=dim)


@aten("slice slice_copy")
def slice_(b, self, dim=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, _END if end is None else end
    if _is(start, 0) and _is(end, _END) and _is(step, 1):
        return self
    return b.slice(self, dim, start, end, step)


def _is(x, number):
    return isinstance(x, int) and (x == number or (number == _END and x > 2**62))


@aten("narrow narrow_copy")
def narrow(b, self, dim, start, length):
    end = (
        start + length
        if isinstance(start, int) and isinstance(length, int)
        else b.to(start, INT64) + b.to(length, INT64)
    )
    if isinstance(start, int) and start < 0 and isinstance(end, int) and end == 0:
        end = _END
    return b.slice(self, dim, start, end)


def spread(b, x, dim, start, end, step):
    """The places that a slice reads, as a column that fits the dimensions of x."""
    n = b.value(b.dim(x, dim))
    places = b.op("Range", b.value(0), n, b.value(1))
    read = b.slice(places, 0, start, end, step)
    return b.reshape(read, [-1] + [1] * (x.rank - dim % x.rank - 1))


@aten("slice_scatter")
def slice_scatter(b, self, src, dim=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, _END if end is None else end
    src = b.to(src, self.dtype)
    if _is(start, 0) and _is(end, _END) and _is(step, 1):
        return TABLE["aten::copy"](b, self, src)
    dim %= self.rank
    if _is(step, 1):  # what is before, the new piece, what is behind
        n = b.dim(self, dim)
        if isinstance(n, int) and isinstance(start, int) and isinstance(end, int):
            start, end = slice(start, end).indices(n)[:2]
            if end <= start:
                return self
            before = [b.slice(self, dim, 0, start)] if start else []
            after = [b.slice(self, dim, end, _END)] if end < n else []
            shape = [s if i != dim else end - start for i, s in enumerate(b.dims(self))]
            src = b.expand(src, shape)
            return b.op("Concat", *before, src, *after, axis=dim) if before or after else src
    at = spread(b, self, dim, start, end, step)
    piece = b.Shape(b.slice(self, dim, start, end, step))
    return b.op("ScatterElements", self, b.Expand(at, piece), b.Expand(src, piece), axis=dim)


@aten("select_scatter")
def select_scatter(b, self, src, dim, index):
    dim %= self.rank
    src = b.to(src, self.dtype)
    picked = b.Shape(b.op("Gather", self, b.const([0], INT64), axis=dim))
    at = b.to(index, INT64)
    n = b.dim(self, dim)
    if isinstance(index, int) and index < 0:
        at = b.value(index + n if isinstance(n, int) else n + index)
    src = b.unsqueeze(src, dim) if src.shape is None or len(src.shape) == self.rank - 1 else src
    return b.op("ScatterElements", self, b.Expand(at, picked), b.Expand(src, picked), axis=dim)


# --- order ---


@aten("flip")
def flip(b, self, dims):
    if not dims or 0 in [b.dim(self, d) for d in dims if isinstance(b.dim(self, d), int)]:
        return self
    ones = [-1] * len(dims)
    return b.op("Slice", self, ones, [-_END] * len(dims), list(dims), ones)


@aten("fliplr")
def fliplr(b, self):
    return flip(b, self, [1])


@aten("flipud")
def flipud(b, self):
    return flip(b, self, [0])


@aten("rot90")
def rot90(b, self, k=1, dims=(0, 1)):
    one, two = dims
    if k % 4 == 0:
        return self
    if k % 4 == 2:
        return flip(b, self, [one, two])
    order = list(range(self.rank))
    order[one], order[two] = order[two], order[one]
    if k % 4 == 1:
        return b.transpose(flip(b, self, [two]), order)
    return flip(b, b.transpose(self, order), [two])


@aten("roll")
def roll(b, self, shifts, dims=()):
    x = self
    if 0 in self.shape:
        return self
    if not dims:
        flat, shape = b.Reshape(self, [-1]), b.Shape(self)
        shift = shifts[0]
        turned = b.op("Concat", b.slice(flat, 0, -shift, _END), b.slice(flat, 0, 0, -shift), axis=0)
        return b.Reshape(turned, shape) if shift else self
    for shift, dim in zip(shifts, dims):
        n = b.dim(self, dim)
        if isinstance(n, int) and isinstance(shift, int):
            shift = shift % n if n else 0
        if isinstance(shift, int) and shift == 0:
            continue
        back = -shift
        x = b.op("Concat", b.slice(x, dim, back, _END), b.slice(x, dim, 0, back), axis=dim)
    return x


@aten("channel_shuffle native_channel_shuffle")
def channel_shuffle(b, self, groups):
    sizes = b.dims(self)
    n = b.reshape(self, [sizes[0], groups, sizes[1] // groups, *sizes[2:]])
    return b.reshape(b.transpose(n, [0, 2, 1, *range(3, self.rank + 1)]), sizes)


@aten("pixel_shuffle")
def pixel_shuffle(b, self, upscale_factor):
    return _four(b, self, lambda x: b.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD"))


@aten("pixel_unshuffle")
def pixel_unshuffle(b, self, downscale_factor):
    r = downscale_factor
    *lead, c, h, w = b.dims(self)
    half = lambda v: v // r if isinstance(v, int) else v / r  # noqa: E731
    n = len(lead)
    cut = b.reshape(self, [*lead, c, half(h), r, half(w), r])
    return shaped(b, b.transpose(cut, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), [*lead, c * r * r, half(h), half(w)])


def _four(b, x, f):
    """A function of images on batches of one dimension, on whatever is before the last three."""
    n = x.rank
    if n == 4:
        return f(x)
    made = f(b.Reshape(x, b.ints([-1, *b.dims(x)[-3:]])))
    return shaped(b, made, [*b.dims(x)[:-3], *[b.op("Gather", b.Shape(made), b.value(i), axis=0) for i in (1, 2, 3)]])


# --- triangles and diagonals ---


def _triangle(upper):
    def translate(b, self, diagonal=0):
        x = b.to(self, tessera.int64) if self.dtype == BOOL else self
        if b.opset >= 14:
            return b.to(b.op("Trilu", x, b.value(diagonal), upper=upper), self.dtype)
        rows_, columns = _grid(b, x)
        inside = b.GreaterOrEqual(columns - rows_, diagonal) if upper else b.LessOrEqual(columns - rows_, diagonal)
        return b.to(b.Where(inside, x, 0), self.dtype)

    return translate


def _grid(b, x):
    n, m = b.dim(x, -2), b.dim(x, -1)
    line = lambda k: b.op("Range", b.value(0), b.value(k), b.value(1))  # noqa: E731
    return b.unsqueeze(line(n), 1), b.unsqueeze(line(m), 0)


TABLE["aten::triu"], TABLE["aten::tril"] = _triangle(1), _triangle(0)


def _plain_constant(function):
    def translate(b, **kwargs):
        from tessera.onnx._build import _plain

        with _plain():
            made = function(**{k: v for k, v in kwargs.items() if v is not None and k != "pin_memory"})
        return b.value(made)

    translate.takes_all = True
    return translate


for (
    _name
) in "tril_indices triu_indices hann_window hamming_window blackman_window kaiser_window bartlett_window".split():
    TABLE["aten::" + _name] = _plain_constant(lambda _f=_name, **kw: getattr(tessera, _f)(**kw))


@aten("linalg_diagonal")
def linalg_diagonal(b, A, offset=0, dim1=-2, dim2=-1):
    return diagonal(b, A, offset, dim1, dim2)


@aten("diagonal diagonal_copy")
def diagonal(b, self, offset=0, dim1=0, dim2=1):
    n = self.rank
    dim1, dim2 = dim1 % n, dim2 % n
    rest = [i for i in range(n) if i not in (dim1, dim2)]
    x = b.transpose(self, [*rest, dim1, dim2])
    h, w = b.dim(self, dim1), b.dim(self, dim2)
    if not (isinstance(h, int) and isinstance(w, int)):
        raise NotImplementedError("diagonal of a matrix whose sizes may differ")
    length = max(min(h, w - offset) if offset >= 0 else min(h + offset, w), 0)
    places = [(i - min(offset, 0)) * w + i + max(offset, 0) for i in range(length)]
    flat = b.reshape(x, [*[b.dim(self, i) for i in rest], h * w])
    return b.op("Gather", flat, b.const(places, INT64), axis=n - 2)


@aten("diagonal_scatter")
def diagonal_scatter(b, self, src, offset=0, dim1=0, dim2=1):
    n = self.rank
    dim1, dim2 = dim1 % n, dim2 % n
    rest = [i for i in range(n) if i not in (dim1, dim2)]
    order = [*rest, dim1, dim2]
    x = b.transpose(self, order)
    rows_, columns = b.dim(self, dim1), b.dim(self, dim2)
    line = lambda k: b.op("Range", b.value(0), b.value(k), b.value(1))  # noqa: E731
    there = b.Equal(b.unsqueeze(line(rows_), 1) + offset, b.unsqueeze(line(columns), 0))
    # the diagonal's element of a row lies beside those of the whole row
    before, after = max(-offset, 0), b.value(rows_) - b.op("Gather", b.Shape(src), b.value(-1), axis=0)
    pads = [0] * (n - 2)
    wide = b.op("Pad", b.to(src, self.dtype), b.ints([*pads, before, *pads, after - before]))
    made = b.Where(there, b.unsqueeze(wide, -1), x)
    return b.transpose(made, [order.index(i) for i in range(n)])


@aten("diag")
def diag(b, self, diagonal=0):
    return globals()["diagonal"](b, self, diagonal) if self.rank == 2 else diag_embed(b, self, diagonal)


@aten("diag_embed")
def diag_embed(b, self, offset=0, dim1=-2, dim2=-1):
    n = self.rank + 1
    dim1, dim2 = dim1 % n, dim2 % n
    size = b.dim(self, -1)
    whole = b.value(size + abs(offset) if isinstance(size, int) else size + abs(offset))
    line = b.op("Range", b.value(0), whole, b.value(1))
    there = b.Equal(b.unsqueeze(line, 1) + offset, b.unsqueeze(line, 0))
    before = [0] * (self.rank - 1)
    padded = b.op("Pad", self, b.ints([*before, max(-offset, 0), *before, max(offset, 0)]))
    made = b.Where(there, b.unsqueeze(padded, -1), b.value(0, self.dtype))
    rest = iter(range(n - 2))
    order = [n - 2 if i == dim1 else n - 1 if i == dim2 else next(rest) for i in range(n)]
    return b.transpose(made, order)


# --- pads and windows ---


def padded(b, self, pad, mode="constant", value=None):
    """F.pad's list (last dimension first) as ONNX's (begins, then ends)."""
    n = self.rank
    pad = [*pad, *[0] * (2 * n - len(pad))]
    begins, ends = pad[-2::-2], pad[-1::-2]
    cut = lambda x: x  # noqa: E731
    if any(isinstance(p, int) and p < 0 for p in pad):
        lost = [(i, -min(p, 0), min(q, 0) or _END) for i, (p, q) in enumerate(zip(begins, ends)) if min(p, q) < 0]
        axes, starts, stops = zip(*lost)
        cut = lambda x: b.op("Slice", x, b.ints(starts), b.ints(stops), b.ints(axes))  # noqa: E731
        begins, ends = [max(p, 0) for p in begins], [max(q, 0) for q in ends]
        if not any(begins) and not any(ends):
            return cut(self)
    if mode in ("edge", "reflect"):  # which take what is cut away into account
        return cut(b.op("Pad", self, b.ints([*begins, *ends]), mode=mode))
    x = cut(self)
    filler = None if mode == "wrap" or value is None else b.to(value, self.dtype) if isinstance(value, Value) else (
        b.value((float if self.dtype.is_floating_point else int)(value), self.dtype)
    )  # fmt: skip
    if mode == "wrap" and b.opset < 19:
        return _wrapped(b, x, begins, ends)
    held = x.dtype == BOOL
    x = b.to(x, tessera.int64) if held else x
    filler = b.to(filler, tessera.int64) if held and filler is not None else filler
    made = b.op("Pad", x, b.ints([*begins, *ends]), filler, mode=mode)
    return b.to(made, BOOL) if held else made


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@aten("pad")
def pad(b, self, pad, mode="constant", value=None):
    return padded(b, self, pad, _MODES[mode], value)


@aten("constant_pad_nd")
def constant_pad_nd(b, self, pad, value=0):
    return padded(b, self, pad, "constant", value)


for _n in (1, 2, 3):
    TABLE[f"aten::reflection_pad{_n}d"] = lambda b, self, padding: padded(b, self, padding, "reflect")
    TABLE[f"aten::replication_pad{_n}d"] = lambda b, self, padding: padded(b, self, padding, "edge")


@aten("_pad_circular")
def _circular(b, self, pad):
    return padded(b, self, pad, "wrap")


def _wrapped(b, x, begins, ends):
    """What begins before, and goes on behind, with the elements of the other end."""
    for axis, (begin, end) in enumerate(zip(begins, ends)):
        parts = [b.slice(x, axis, -begin, _END)] if begin else []
        parts += [x, *([b.slice(x, axis, 0, end)] if end else [])]
        x = b.op("Concat", *parts, axis=axis) if len(parts) > 1 else x
    return x


def windows(n, size, step):
    return [[i + k for k in range(size)] for i in range(0, n - size + 1, step)]


@aten("unfold unfold_copy")
def unfold(b, self, dimension, size, step):
    dim = dimension % max(self.rank, 1)
    n = b.dim(self, dim)
    if isinstance(n, int):
        at = b.const(windows(n, size, step), INT64)
    else:
        begins = b.op("Range", b.value(0), b.to(n, INT64) - (size - 1), b.value(step))
        at = b.unsqueeze(begins, 1) + b.unsqueeze(b.const(list(range(size)), INT64), 0)
    taken = b.op("Gather", self, at, axis=dim)
    m = self.rank + 1
    return b.transpose(taken, [*[i for i in range(m) if i != dim + 1], dim + 1])


@aten("im2col")
def im2col(b, self, kernel_size, dilation, padding, stride):
    x = self if self.rank == 4 else b.unsqueeze(self, 0)
    n, c, h, w = b.dims(self) if self.rank == 4 else [1, *b.dims(self)]
    if not (isinstance(h, int) and isinstance(w, int)):
        raise NotImplementedError("unfold of images whose sizes may differ")
    (ph, pw), (dh, dw) = padding, dilation
    if ph or pw:
        x = b.op("Pad", x, b.ints([0, 0, ph, pw, 0, 0, ph, pw]))
    rows_ = _places(h + 2 * ph, kernel_size[0], dh, stride[0])
    columns = _places(w + 2 * pw, kernel_size[1], dw, stride[1])
    x = b.op("Gather", x, b.const(rows_, INT64), axis=2)  # n c kh oh w
    x = b.op("Gather", x, b.const(columns, INT64), axis=4)  # n c kh oh kw ow
    x = b.transpose(x, [0, 1, 2, 4, 3, 5])
    made = b.reshape(x, [n, c * kernel_size[0] * kernel_size[1], len(rows_[0]) * len(columns[0])])
    return made if self.rank == 4 else b.squeeze(made, 0)


def _places(n, kernel, dilation, stride):
    """For each element of a kernel the places that it reads."""
    last = n - dilation * (kernel - 1)
    return [[k * dilation + i for i in range(0, last, stride)] for k in range(kernel)]


@aten("col2im")
def col2im(b, self, output_size, kernel_size, dilation, padding, stride):
    if b.opset < 18:
        raise NotImplementedError(f"fold needs opset_version 18, not {b.opset}")
    x = self if self.rank == 3 else b.unsqueeze(self, 0)
    made = b.op("Col2Im", x, b.ints(output_size), b.ints(kernel_size), dilations=list(dilation),
                pads=[*padding, *padding], strides=list(stride))  # fmt: skip
    return made if self.rank == 3 else b.squeeze(made, 0)


@aten("as_strided as_strided_copy")
def as_strided(b, self, size, stride, storage_offset=None):
    if any(isinstance(v, Value) for v in (*size, *stride)):
        raise NotImplementedError("as_strided with sizes that may differ")
    if isinstance(self.val, tessera.Tensor) and not self.val.is_contiguous():
        raise NotImplementedError("as_strided of a tensor whose elements do not lie in their order")
    places = [storage_offset or 0]
    for n, s in zip(size, stride):
        places = [p + i * s for p in places for i in range(n)]
    if len(places) > 1 << 20:
        raise NotImplementedError("as_strided of more than a million elements")
    return b.reshape(b.op("Gather", b.Reshape(self, [-1]), b.const(places, INT64), axis=0), size)


@aten("kron")
def kron(b, self, other):
    one, two = work(b, self, other)
    n = self.rank
    if n != other.rank:
        raise NotImplementedError("kron of tensors of different numbers of dimensions")
    left = b.unsqueeze(one, *[2 * i + 1 for i in range(n)])
    right = b.unsqueeze(two, *[2 * i for i in range(n)])
    return shaped(b, left * right, [-1] * n)


TABLE["aten::numel"] = lambda b, self: b.Size(self)
