"""Decompositions of views, factories and operators on indices."""

import tessera
from tessera._decomp._registry import rule
from tessera._ops import ops

aten = ops.aten


def axis(dim, rank):
    return dim % rank if rank else 0


@rule("t")
def t(self):
    if self.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.dim()}D")
    return aten.permute.default(self, [1, 0] if self.dim() == 2 else list(range(self.dim())))


@rule("transpose.int")
def transpose(self, dim0, dim1):
    order = list(range(self.dim()))
    if order:
        a, b = axis(dim0, self.dim()), axis(dim1, self.dim())
        order[a], order[b] = order[b], order[a]
    return aten.permute.default(self, order)


@rule("squeeze")
def squeeze(self):
    return aten.squeeze.dims(self, [i for i, n in enumerate(self.shape) if n == 1])


@rule("detach")
def detach(self):
    return aten.alias.default(self)


@rule("expand_copy")
def expand_copy(self, size, *, implicit=False):
    return aten.expand.default(self, size, implicit=implicit).clone()


@rule("unfold_copy")
def unfold_copy(self, dimension, size, step):
    return aten.unfold.default(self, dimension, size, step).clone()


@rule("split.Tensor")
def split(self, split_size, dim=0):
    length = self.shape[dim]
    if length == 0 or split_size == 0:
        sizes = [length]
    else:
        sizes = [min(split_size, length - at) for at in range(0, length, split_size)]
    return aten.split_with_sizes.default(self, sizes, dim)


@rule("unbind.int")
def unbind(self, dim=0):
    return [aten.select.int(self, dim, i) for i in range(self.shape[dim])]


def filled(size, value, like=None, dtype=None, layout=None, device=None, pin_memory=None):
    """`full` with the dtype that the operator would have taken."""
    dtype = (tessera.get_default_dtype() if like is None else like.dtype) if dtype is None else dtype
    device = (tessera.get_default_device() if like is None else like.device) if device is None else device
    return aten.full.default(list(size), value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@rule("zeros")
def zeros(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(size, 0, None, dtype, layout, device, pin_memory)


@rule("ones")
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(size, 1, None, dtype, layout, device, pin_memory)


@rule("new_zeros")
def new_zeros(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(size, 0, self, dtype, layout, device, pin_memory)


@rule("new_ones")
def new_ones(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(size, 1, self, dtype, layout, device, pin_memory)


@rule("new_full")
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=None):
    return filled(size, fill_value, self, dtype, layout, device, pin_memory)


@rule("new_empty")
def new_empty(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
    return aten.empty.memory_format(list(size), dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@rule("zeros_like")
def zeros_like(self, **options):
    return aten.full_like.default(self, 0, **options)


@rule("ones_like")
def ones_like(self, **options):
    return aten.full_like.default(self, 1, **options)


@rule("arange")
def arange(end, **options):
    return aten.arange.start_step(0, end, 1, **options)


@rule("arange.start")
def arange_start(start, end, **options):
    return aten.arange.start_step(start, end, 1, **options)


@rule("eye")
def eye(n, **options):
    return eye_of(n, n, **options)


@rule("eye.m")
def eye_of(n, m, *, dtype=None, device=None, **options):
    device = tessera.get_default_device() if device is None else device
    rows = aten.arange.start_step(0, n, 1, dtype=tessera.int64, device=device)
    columns = aten.arange.start_step(0, m, 1, dtype=tessera.int64, device=device)
    dtype = tessera.get_default_dtype() if dtype is None else dtype
    return aten._to_copy.default(aten.unsqueeze.default(rows, 1) == columns, dtype=dtype, **options)


def _triangle(self, below):
    if self.dim() < 2:
        raise RuntimeError(f"tril and triu need a tensor of at least 2 dimensions, got {self.dim()}")
    rows = aten.arange.start_step(0, self.shape[-2], 1, dtype=tessera.int64, device=self.device)
    columns = aten.arange.start_step(0, self.shape[-1], 1, dtype=tessera.int64, device=self.device)
    distance = columns - aten.unsqueeze.default(rows, 1)
    return aten.where.self(below(distance), self, aten.scalar_tensor.default(0, dtype=self.dtype, device=self.device))


@rule("tril")
def tril(self, diagonal=0):
    return _triangle(self, lambda distance: distance <= diagonal)


@rule("triu")
def triu(self, diagonal=0):
    return _triangle(self, lambda distance: distance >= diagonal)


# --- backward passes of views


def _zeros_for(grad_output, input_sizes):
    return filled(input_sizes, 0, grad_output)


@rule("select_backward")
def select_backward(grad_output, input_sizes, dim, index):
    return aten.select_scatter.default(_zeros_for(grad_output, input_sizes), grad_output, dim, index)


@rule("slice_backward")
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    return aten.slice_scatter.default(_zeros_for(grad_output, input_sizes), grad_output, dim, start, end, step)


@rule("diagonal_backward")
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    return aten.diagonal_scatter.default(_zeros_for(grad_output, input_sizes), grad_output, offset, dim1, dim2)


# --- by index


def _at(self, dim, index):
    places = [None] * axis(dim, max(self.dim(), 1))
    return [*places, index]


@rule("index_add")
def index_add(self, dim, index, source, *, alpha=1):
    if self.dtype != source.dtype or self.dim() != max(source.dim(), 1 if self.dim() == 1 else 0):
        raise RuntimeError(
            f"index_add: expected a source of {self.dim()} dimensions and {self.dtype}, like self, got "
            f"{source.dim()} and {source.dtype}"
        )
    if index.dim() > 1 or index.numel() != (source.shape[dim] if source.dim() else 1):
        raise RuntimeError(
            f"index_add: expected a vector with a number for each of the source's {tuple(source.shape)} slices in "
            f"dimension {dim}, got an index of shape {tuple(index.shape)}"
        )
    source = source if alpha == 1 else source * alpha
    if self.dim() == 0:
        at_one = aten.unsqueeze.default(self, 0)
        return aten.squeeze.dims(index_add(at_one, 0, index, source.reshape(-1)), [0])
    return aten.index_put.default(self, _at(self, dim, index), source, True)


@rule("index_copy")
def index_copy(self, dim, index, source):
    if self.dim() == 0:
        at_one = aten.unsqueeze.default(self, 0)
        return aten.squeeze.dims(index_copy(at_one, 0, index, source.reshape(-1)), [0])
    return aten.index_put.default(self, _at(self, dim, index), source)


@rule("index_fill.int_Scalar")
def index_fill(self, dim, index, value):
    value = aten.scalar_tensor.default(value, dtype=self.dtype, device=self.device)
    if self.dim() == 0:
        return aten.squeeze.dims(index_fill(aten.unsqueeze.default(self, 0), 0, index, value), [0])
    return aten.index_put.default(self, _at(self, dim, index.reshape(-1)), value)
