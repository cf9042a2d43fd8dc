"""Operators of jagged tensors: what each does with the values and the ragged dimension."""

import tessera
from tessera.nested._internal.attention import jagged_attention
from tessera.nested._internal.base import common, is_nested, map_nested, nested_among, normalized, plain_name, served
from tessera.nested._internal.nested_int import NestedInt
from tessera.nested._internal.nested_tensor import NestedTensor, _from_parts

_table = NestedTensor._table = {}
common(_table, lambda nested: nested._values)


def extract_kwargs(arg):
    """The keyword arguments that make another jagged tensor of the same lengths: NestedTensor(values, **these)."""
    return {
        "offsets": arg._offsets,
        "lengths": arg._lengths,
        "_metadata_cache": arg._metadata_cache,
        "_ragged_idx": arg._ragged_idx,
    }


def _refused(name, reason):
    return RuntimeError(f"{name}(): {reason}")


def _dim_argument(args, kwargs, position=1, default=None):
    """(dim, the other positional arguments, the other keywords)."""
    kwargs = dict(kwargs)
    for key in ("dim", "axis"):
        if key in kwargs:
            return kwargs.pop(key), args[1:], kwargs
    if len(args) > position:
        return args[position], args[1:position] + args[position + 1 :], kwargs
    return default, args[1:], kwargs


def _inner(nested, dim, name):
    """Where the dimension `dim` is in the values.

    Raises: RuntimeError for the batch and the ragged dimension.
    """
    dim = normalized(dim, nested._values.dim() + 1)
    if dim == 0:
        raise _refused(name, "not supported for NestedTensor on dim=0")
    if dim == nested._ragged_idx:
        raise _refused(name, "not supported for NestedTensor on ragged dim")
    return dim - 1


# --- elementwise ---


def _aligned(dense, nested, name):
    """A dense operand in a shape that broadcasts against the values."""
    ndim, ragged = nested._values.dim() + 1, nested._ragged_idx
    if dense.dim() <= ndim - 1 - ragged:
        return dense
    if dense.dim() > ndim:
        raise _refused(name, f"a dense operand of {dense.dim()} dimensions does not broadcast to {nested._size}")
    shape = (1,) * (ndim - dense.dim()) + tuple(dense.shape)
    dense = dense.reshape(shape)
    if shape[0] == len(nested) and shape[ragged] == nested._max_seqlen and nested._lengths is None:  # padded
        rows, places = nested._places()
        return dense.movedim(ragged, 1)[rows, places].movedim(0, ragged - 1)
    if shape[ragged] != 1:
        raise _refused(
            name,
            f"cannot bring inputs of shapes {nested._size} and {shape} together: a dense operand must have size 1, or "
            "that of the padded tensor, in the ragged dimension",
        )
    if shape[0] == 1:
        return dense[0]
    if shape[0] != len(nested):
        raise _refused(name, f"a batch of {shape[0]} does not fit {nested._size}")
    return dense.squeeze(ragged).index_select(0, nested._row_ids()).movedim(0, ragged - 1)


def _elementwise(func, name, args, kwargs):
    owners = list(nested_among((*args, *kwargs.values())))
    first = owners[0]
    for other in owners[1:]:
        if (
            not isinstance(other, NestedTensor)
            or other._ragged_idx != first._ragged_idx
            or other._values.dim() != first._values.dim()
            or other._size[other._ragged_idx] != first._size[first._ragged_idx]
        ):
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes {first._size} and "
                f"{getattr(other, '_size', 'of the strided layout')}"
            )

    def plain(value):
        if is_nested(value):
            return value._values
        if isinstance(value, tessera.Tensor) and value.dim() and len(owners):
            return _aligned(value, first, name)
        return value

    if name in ("to", "_to_copy", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
        kwargs = {key: value for key, value in kwargs.items() if key != "layout"}
    values = [plain(arg) for arg in args]
    found = func(*values, **{key: plain(value) for key, value in kwargs.items()})
    if name == "contiguous" and first._lengths is not None:
        return first._packed()
    if is_nested(args[0]) and found is args[0]._values:
        return args[0]
    if isinstance(found, tuple):
        return type(found)(first._like(value) for value in found)
    return first._like(found) if isinstance(found, tessera.Tensor) else found


NestedTensor._elementwise = staticmethod(_elementwise)


# --- sizes ---


@served(_table, "get shape", "size")
def _size(func, args, kwargs):
    size = tessera.Size(args[0]._size)
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    return size if dim is None else size[normalized(dim, len(size))]


@served(_table, "stride")
def _stride(func, args, kwargs):
    strides = args[0]._strides
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    return strides if dim is None else strides[normalized(dim, len(strides))]


@served(_table, "numel", "nelement")
def _numel(func, args, kwargs):
    nested = args[0]
    total = nested._values.numel()
    if nested._lengths is None:
        return total
    return sum(part.numel() for part in nested._parts())


_table["__len__"] = lambda func, args, kwargs: args[0]._offsets.shape[0] - 1
_table["is_contiguous"] = lambda func, args, kwargs: args[0]._is_contiguous_or_false()
_table["storage_offset"] = lambda func, args, kwargs: args[0]._values.storage_offset()
_table["values"] = lambda func, args, kwargs: args[0]._values
_table["get nbytes"] = lambda func, args, kwargs: args[0]._values.nbytes
_table["is_shared"] = lambda func, args, kwargs: args[0]._values.is_shared()


@served(_table, "share_memory_")
def _share(func, args, kwargs):
    for member in (args[0]._values, args[0]._offsets, args[0]._lengths):
        if member is not None:
            member.share_memory_()
    return args[0]


# --- components ---


@served(_table, "unbind")
def _unbind(func, args, kwargs):
    dim, _, _ = _dim_argument(args, kwargs, default=0)
    if normalized(dim, args[0]._values.dim() + 1) != 0:
        raise _refused("unbind", "only supported for NestedTensor on dim=0")
    return tuple(args[0]._parts())


def _component(nested, index):
    bounds = nested._bounds()
    if not -len(bounds) <= index < len(bounds):
        raise IndexError(f"index {index} is out of bounds for a nested tensor of {len(bounds)} components")
    start, length = bounds[index]
    return nested._values.narrow(nested._ragged_idx - 1, start, length)


@served(_table, "__getitem__")
def _getitem(func, args, kwargs):
    nested, index = args
    index = index if isinstance(index, tuple) else (index,)
    if not index or index == (Ellipsis,):
        return nested
    if isinstance(index[0], int) and not isinstance(index[0], bool):
        part = _component(nested, index[0])
        return part[index[1:]] if len(index) > 1 else part
    whole = slice(None)
    if any(isinstance(i, (tessera.Tensor, list)) for i in index):
        raise NotImplementedError("indexing with tensors is not supported for nested tensors: take the components")
    if index[0] is not Ellipsis:
        ahead = index[: nested._ragged_idx + 1]
        if index[0] != whole or len(ahead) <= nested._ragged_idx or ahead[-1] != whole:
            raise _refused("slice", "not supported for NestedTensor on dim=0")
        index = (whole, *index[1:])
        result = nested._values[index[1:]]
        gone = sum(1 for i in index[1 : nested._ragged_idx] if isinstance(i, int))
        return nested._like(result, nested._ragged_idx - gone)
    used = sum(1 for i in index[1:] if i is not None)
    if used >= nested._values.dim() + 1 - nested._ragged_idx:
        raise _refused("slice", "not supported for NestedTensor on the ragged dimension")
    return nested._like(nested._values[index])


@served(_table, "__setitem__")
def _setitem(func, args, kwargs):
    nested, index, value = args
    if is_nested(index):  # a mask
        nested._values[index._values] = value._values if is_nested(value) else value
        return
    found = _getitem(func, (nested, index), {})
    found.copy_(value) if isinstance(value, tessera.Tensor) else found.fill_(value)


@served(_table, "masked_select")
def _masked_select(func, args, kwargs):
    nested, mask = args[0], args[1] if len(args) > 1 else kwargs["mask"]
    if not nested._same_sizes(mask):
        raise _refused("masked_select", "the mask must be a jagged tensor of the sizes of the other")
    return _from_parts([part.masked_select(kept) for part, kept in zip(nested._parts(), mask._parts())])


@served(_table, "select")
def _select(func, args, kwargs):
    nested = args[0]
    dim, rest, kwargs = _dim_argument(args, kwargs)
    if normalized(dim, nested._values.dim() + 1) == 0:
        return _component(nested, rest[0] if rest else kwargs["index"])
    inner = _inner(nested, dim, "select")
    found = nested._values.select(inner, *rest, **kwargs)
    return nested._like(found, nested._ragged_idx - (inner + 1 < nested._ragged_idx))


@served(_table, "to_padded_tensor")
def _to_padded_tensor(func, args, kwargs):
    nested, padding = args[0], args[1] if len(args) > 1 else kwargs["padding"]
    output_size = args[2] if len(args) > 2 else kwargs.get("output_size")
    nested = nested._packed()
    dim = nested._ragged_idx - 1
    values = nested._values.movedim(dim, 0)
    rows, places = nested._places()
    longest = max((length for _, length in nested._bounds()), default=0)
    if output_size is not None:
        wanted = tuple(output_size)
        if len(wanted) != nested._values.dim() + 1:
            raise _refused("to_padded_tensor", f"output_size {wanted} must have {nested._values.dim() + 1} entries")
        if wanted[nested._ragged_idx] < longest:
            kept = places < wanted[nested._ragged_idx]
            values, rows, places = values[kept], rows[kept], places[kept]
        longest = wanted[nested._ragged_idx]
    padded = values.new_full((len(nested), longest, *values.shape[1:]), padding)
    padded = padded.index_put((rows, places), values).movedim(1, dim + 1)
    if output_size is not None and tuple(padded.shape) != wanted:
        larger = [w - have for w, have in zip(wanted, padded.shape)]
        if min(larger) < 0:
            raise _refused(
                "to_padded_tensor", f"output_size {wanted} is smaller than the components, {tuple(padded.shape)}"
            )
        pad = [entry for extra in reversed(larger) for entry in (0, extra)]
        padded = tessera.nn.functional.pad(padded, pad, value=padding)
    return padded


# --- moving dimensions ---


@served(_table, "transpose", "swapaxes", "swapdims")
def _transpose(func, args, kwargs):
    nested = args[0]
    given = [*args[1:], *kwargs.values()]
    a, b = (normalized(d, nested._values.dim() + 1) for d in given)
    if a == b:
        return nested
    if 0 in (a, b):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = {a: b, b: a}.get(nested._ragged_idx, nested._ragged_idx)
    return nested._like(nested._values.transpose(a - 1, b - 1), ragged)


_table["get mT"] = lambda func, args, kwargs: _transpose(func, (args[0], -2, -1), {})


@served(_table, "permute")
def _permute(func, args, kwargs):
    nested = args[0]
    dims = kwargs.get("dims", args[1:])
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    if len(dims) != nested._values.dim() + 1:
        raise RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions, i.e. input.dim() = {nested._values.dim() + 1} is not equal to len(dims) = {len(dims)}"
        )
    dims = [normalized(d, nested._values.dim() + 1) for d in dims]
    if dims[:1] != [0]:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return nested._like(nested._values.permute([d - 1 for d in dims[1:]]), dims.index(nested._ragged_idx))


@served(_table, "unsqueeze")
def _unsqueeze(func, args, kwargs):
    nested = args[0]
    dim = normalized(_dim_argument(args, kwargs)[0], nested._values.dim() + 2)
    if dim == 0:
        raise _refused("unsqueeze", "not supported for NestedTensor on dim=0")
    return nested._like(nested._values.unsqueeze(dim - 1), nested._ragged_idx + (dim <= nested._ragged_idx))


@served(_table, "squeeze")
def _squeeze(func, args, kwargs):
    nested = args[0]
    dim, _, _ = _dim_argument(args, kwargs)
    if dim is None:
        dims = [d + 1 for d, n in enumerate(nested._values.shape) if n == 1 and d + 1 != nested._ragged_idx]
    else:
        dims = [_inner(nested, d, "squeeze") + 1 for d in ((dim,) if isinstance(dim, int) else dim)]
        dims = [d for d in dims if nested._values.shape[d - 1] == 1]
    ragged = nested._ragged_idx - sum(d < nested._ragged_idx for d in dims)
    return nested._like(nested._values.squeeze([d - 1 for d in dims]), ragged)


@served(_table, "unflatten")
def _unflatten(func, args, kwargs):
    nested = args[0]
    dim, rest, kwargs = _dim_argument(args, kwargs)
    sizes = rest[0] if rest else kwargs["sizes"]
    inner = _inner(nested, dim, "unflatten")
    found = nested._values.unflatten(inner, sizes)
    return nested._like(found, nested._ragged_idx + (len(sizes) - 1 if inner + 1 < nested._ragged_idx else 0))


@served(_table, "flatten")
def _flatten(func, args, kwargs):
    nested = args[0]
    ndim = nested._values.dim() + 1
    start = normalized(args[1] if len(args) > 1 else kwargs.get("start_dim", 0), ndim)
    end = normalized(args[2] if len(args) > 2 else kwargs.get("end_dim", -1), ndim)
    if start == 0:
        raise _refused("flatten", "not supported for NestedTensor on dim=0")
    if start <= nested._ragged_idx <= end:
        if start == end:
            return nested
        raise _refused("flatten", "not supported for NestedTensor on ragged dim")
    found = nested._values.flatten(start - 1, end - 1)
    return nested._like(found, nested._ragged_idx - (end - start if end < nested._ragged_idx else 0))


@served(_table, "apply_")
def _apply(func, args, kwargs):
    args[0]._values.apply_(*args[1:], **kwargs)
    return args[0]


@served(_table, "view", "reshape", "_reshape_alias", "_unsafe_view")
def _view(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    if len(args) > 1 and isinstance(args[1], tessera.dtype):
        return nested._like(nested._values.view(args[1]))
    shape = kwargs.get("shape", kwargs.get("size", args[1:]))
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)
    size = nested._size
    symbol = size[nested._ragged_idx]
    ahead = _product(size[1 : nested._ragged_idx])
    ragged = next((k for k, entry in enumerate(shape) if isinstance(entry, NestedInt) and entry == symbol), None)
    if ragged is None:
        ragged = next((k for k, e in enumerate(shape) if e == -1 and k and _product(shape[1:k]) == ahead), None)
    if ragged is None or shape[0] not in (size[0], -1) or _product(shape[1:ragged]) not in (ahead, -ahead):
        raise _refused(name, f"cannot view shape {size} as {list(shape)}")
    inner = (*shape[1:ragged], nested._values.shape[nested._ragged_idx - 1], *shape[ragged + 1 :])
    return nested._like(getattr(nested._values, "view" if name == "view" else "reshape")(inner), ragged)


def _product(sizes):
    n = 1
    for size in sizes:
        n *= size
    return n


@served(_table, "view_as", "reshape_as")
def _view_as(func, args, kwargs):
    return _view(func, (args[0], args[1]._size), {})


@served(_table, "expand", "expand_as")
def _expand(func, args, kwargs):
    nested = args[0]
    shape = tuple(args[1]._size) if is_nested(args[1]) else args[1:]
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)
    inner = list(shape[1:])
    if len(inner) != nested._values.dim():
        raise _refused("expand", f"cannot expand {nested._size} to {shape}")
    inner[nested._ragged_idx - 1] = -1
    return nested._like(nested._values.expand(inner))


@served(_table, "cat", "concat", "concatenate", "stack")
def _cat(func, args, kwargs):
    tensors, name = args[0], plain_name(func)
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    first = next(nested_among(tensors))
    if not all(
        is_nested(t) and t._size[: first._ragged_idx + 1] == first._size[: first._ragged_idx + 1] for t in tensors
    ):
        raise _refused(name, "all tensors must be nested with the same ragged sizes (the same offsets)")
    if name == "stack":
        dim = normalized(dim, first._values.dim() + 2)
        if dim == 0:
            raise _refused(name, "not supported for NestedTensor on dim=0")
        return first._like(
            tessera.stack([t._values for t in tensors], dim - 1), first._ragged_idx + (dim <= first._ragged_idx)
        )
    return first._like(tessera.cat([t._values for t in tensors], _inner(first, dim, name)))


@served(_table, "split", "chunk", "split_with_sizes", "tensor_split")
def _split(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim, rest, kwargs = _dim_argument(args, kwargs, position=2, default=0)
    if normalized(dim, nested._values.dim() + 1) == 0 and name == "chunk":
        parts = nested._parts()
        groups = tessera.arange(len(parts)).chunk(rest[0] if rest else kwargs["chunks"])
        return tuple(_from_parts([parts[i] for i in group.tolist()], nested._ragged_idx) for group in groups)
    inner = _inner(nested, dim, name)
    found = getattr(nested._values, name)(*rest, dim=inner, **kwargs)
    return tuple(nested._like(part) for part in found)


@served(_table, "narrow", "index_select")
def _along(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim, rest, kwargs = _dim_argument(args, kwargs)
    return nested._like(getattr(nested._values, name)(_inner(nested, dim, name), *rest, **kwargs))


@served(
    _table,
    "softmax log_softmax softmin _softmax _log_softmax cumsum cumprod logcumsumexp sort argsort flip cummax cummin",
)
def _scan(func, args, kwargs):
    """Operators along a dimension that keep its size: component by component where it is the ragged one."""
    nested, name = args[0], plain_name(func)
    last = name in ("sort", "argsort")
    dim, rest, kwargs = _dim_argument(args, kwargs, default=-1 if last else None)
    kwargs.pop("_stacklevel", None)
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    dim = normalized(dim, nested._values.dim() + 1)
    if dim == 0:
        raise _refused(name, "not supported when reducing across the batch dimension for NestedTensor")
    kind = name.strip("_")
    if kind == "softmin":
        return _scan(tessera.softmax, (-nested, dim, *rest), kwargs)
    if name.startswith("_"):
        rest = ()
    function = getattr(tessera, kind)
    if dim != nested._ragged_idx:
        found = function(nested._values, dim - 1, *rest, **kwargs) if kind != "flip" else nested._values.flip(dim - 1)
    else:
        nested = nested._packed()
        call = (lambda p: p.flip(dim - 1)) if kind == "flip" else (lambda p: function(p, dim - 1, *rest, **kwargs))
        found = [call(part) for part in nested._parts()]
        if isinstance(found[0], tuple):
            return tuple(nested._like(tessera.cat(pieces, dim - 1)) for pieces in zip(*found))
        found = tessera.cat(found, dim - 1)
    return type(found)(map(nested._like, found)) if type(found) is tuple else map_result(nested, found)


def map_result(nested, found):
    """A tensor, or a named tuple of tensors, of the sizes of `nested`."""
    if isinstance(found, tessera.Tensor):
        return nested._like(found)
    return type(found)([nested._like(value) for value in found])


# --- reductions ---

_REDUCTIONS = (
    "sum mean prod amax amin max min any all argmax argmin var std logsumexp norm nansum nanmean count_nonzero"
)


@served(_table, _REDUCTIONS)
def _reduce(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    if name in ("max", "min") and len(args) > 1 and isinstance(args[1], tessera.Tensor):
        return _elementwise(func, name, args, kwargs)
    position = 2 if name == "norm" else 1
    dim, rest, kwargs = _dim_argument(args, kwargs, position=position)
    if name in ("var", "std") and isinstance(dim, bool):
        dim, rest = None, (dim,)
    keepdim = kwargs.pop("keepdim", False)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        packed = nested._packed()._values
        return getattr(packed, name)(*rest, **kwargs)
    if rest and isinstance(rest[0], bool) and name not in ("var", "std", "norm"):
        keepdim, rest = rest[0], rest[1:]
    dims = sorted({normalized(d, nested._values.dim() + 1) for d in ((dim,) if isinstance(dim, int) else dim)})
    ragged = nested._ragged_idx
    if 0 in dims and ragged not in dims:
        raise _refused(
            name, "reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    inner = [d - 1 for d in dims if d]
    over = inner[0] if name in ("prod", "max", "min", "argmax", "argmin") else inner
    if name == "norm":  # its first argument comes before the dimensions
        order, rest = rest[:1] or (kwargs.pop("p", "fro"),), rest[1:]
        keepdim, rest = (rest[0], rest[1:]) if rest else (keepdim, rest)
    else:
        order = ()
    if name != "count_nonzero":
        kwargs["keepdim"] = keepdim
    elif keepdim:
        raise TypeError("count_nonzero(): keepdim is no argument of it")

    def reduced(values, over):
        return getattr(values, name)(*order, over, *rest, **kwargs)

    if 0 in dims:
        found = reduced(nested._packed()._values, over)
        return found.unsqueeze(0) if keepdim else found
    if ragged not in dims:
        found = reduced(nested._values, over)
        after = ragged if keepdim else ragged - sum(d < ragged for d in dims)
        like = lambda values: nested._like(values, after)  # noqa: E731
        return like(found) if isinstance(found, tessera.Tensor) else type(found)([like(value) for value in found])
    if len(dims) > 1:
        raise _refused(name, "reducing along a ragged and non-batch dimension is not supported for nested tensors")
    if name in ("sum", "mean") and kwargs.keys() == {"keepdim"} and not rest:
        return _sums(nested, name, keepdim)
    found = [reduced(part, ragged - 1) for part in nested._parts()]
    if isinstance(found[0], tessera.Tensor):
        return tessera.stack(found)
    return type(found[0])([tessera.stack(pieces) for pieces in zip(*found)])


def _sums(nested, name, keepdim):
    """The sums or means over the ragged dimension, one component's below the other's."""
    dim, packed = nested._ragged_idx - 1, nested._packed()
    values = packed._values
    shape = list(values.shape)
    shape[dim] = len(packed)
    found = values.new_zeros(shape).index_add(dim, packed._row_ids(), values).movedim(dim, 0)
    if name == "mean":
        lengths = packed._offsets.diff().to(found.dtype)
        found = found / lengths.reshape(-1, *(1,) * (found.dim() - 1))
    return found.unsqueeze(dim + 1) if keepdim else found


# --- products and layers ---


def _check_last(nested, name):
    if nested._ragged_idx == nested._values.dim():
        raise _refused(name, f"not supported where the ragged dimension is the last one, got {nested._size}")


@served(_table, "linear")
def _linear(func, args, kwargs):
    _check_last(args[0], "linear")
    return args[0]._like(func(args[0]._values, *args[1:], **kwargs))


@served(_table, "matmul", "__matmul__", "__rmatmul__", "bmm", "mm")
def _matmul(func, args, kwargs):
    a, b = args[0], args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("mat2"))
    if plain_name(func) == "__rmatmul__":
        a, b = b, a
    if is_nested(a) and not is_nested(b) and a._ragged_idx < a._values.dim():
        if b.dim() == 2 or (b.dim() > 2 and all(n == 1 for n in b.shape[:-2])):
            return a._like(a._values @ b.reshape(b.shape[-2:]))
        if b.dim() == a._values.dim() + 1 and a._ragged_idx == a._values.dim() - 1 and b.shape[0] == len(a):
            a = a._packed()
            return a._like(tessera.cat([p @ m for p, m in zip(a._parts(), b.unbind())], a._ragged_idx - 1))
    if is_nested(a) and is_nested(b) and len(a) == len(b):
        contracted = a._ragged_idx == a._values.dim() and b._ragged_idx == b._values.dim() - 1
        if contracted and a._size[a._ragged_idx] == b._size[b._ragged_idx]:
            return tessera.stack([p @ q for p, q in zip(a._parts(), b._parts())])
        batched = a._ragged_idx == b._ragged_idx < a._values.dim() - 1 and a._values.dim() == b._values.dim()
        if batched and a._size[a._ragged_idx] == b._size[b._ragged_idx]:
            return a._like(a._values @ b._values)
    shapes = [tuple(t._size) if is_nested(t) else tuple(t.shape) for t in (a, b)]
    raise RuntimeError(f"matmul(): not supported between inputs of shapes {shapes[0]} and {shapes[1]}")


@served(_table, "layer_norm", "rms_norm", "native_layer_norm")
def _norm(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    first = nested._values.dim() + 1 - len(shape)
    if first <= 0:
        raise _refused(name, "not supported when normalizing over the batch dimension for NestedTensor")
    if first <= nested._ragged_idx:
        return _norm_of_parts(func, name, nested, shape, first - 1, args[2:], kwargs)
    found = func(nested._values, *args[1:], **kwargs)
    return nested._like(found) if isinstance(found, tessera.Tensor) else tuple(map(nested._like, found))


def _norm_of_parts(func, name, nested, shape, dim, rest, kwargs):
    """Each component normalized for itself, from its dimension `dim` on."""
    if nested._values.dim() < 2:
        raise _refused(name, "not supported for NestedTensor objects with 2 or fewer dimensions")
    if nested._lengths is not None:
        raise _refused(
            name, "not supported where lengths is not None if operating on the ragged dimension for NestedTensor"
        )
    if name == "native_layer_norm" or shape != nested._size[dim + 1 :]:
        raise _refused(name, f"normalized_shape must be {nested._size[dim + 1 :]}, the last dimensions, got {shape}")
    options = dict(zip(("weight", "bias", "eps") if name == "layer_norm" else ("weight", "eps"), rest)) | kwargs
    if any(options.get(key) is not None for key in ("weight", "bias")):
        raise _refused(name, "a weight has no place in a ragged dimension: give none where it is normalized")
    options.pop("normalized_shape", None)
    parts = [func(part, part.shape[dim:], **options) for part in nested._parts()]
    return nested._like(tessera.cat(parts, nested._ragged_idx - 1)) if parts else nested


@served(_table, "normalize", "glu")
def _normalize(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim, rest, kwargs = _dim_argument(args, kwargs, 2 if name == "normalize" else 1, 1 if name == "normalize" else -1)
    return nested._like(func(nested._values, *rest, dim=_inner(nested, dim, name), **kwargs))


@served(_table, "embedding", "one_hot")
def _embedding(func, args, kwargs):
    # the operator's order is (weight, indices), the function's (indices, weight)
    values = [map_nested(lambda nested: nested._values, arg) for arg in args]
    return next(nested_among(args))._like(func(*values, **kwargs))


@served(_table, "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")
def _loss(func, args, kwargs):
    owner = next(nested_among(args))
    if not owner._same_sizes(args[1]):
        raise _refused(plain_name(func), "input and target must be nested with the same ragged sizes")
    found = func(owner._packed()._values, args[1]._packed()._values, *args[2:], **kwargs)
    return owner._like(found) if found.dim() == owner._values.dim() else found


@served(_table, "scaled_dot_product_attention")
def _attention(func, args, kwargs):
    return jagged_attention(*args, **kwargs)
