"""Strided nested tensors: components of any sizes, in one buffer where they came from one, else each for itself."""

import tessera
from tessera.nested._internal.attention import strided_attention
from tessera.nested._internal.base import Nested, common, is_nested, nested_among, normalized, plain_name, served

_table: dict = {}


class StridedNestedTensor(Nested):
    """A list of components, which are plain tensors with the same number of dimensions. `_buffer`, where it is not
    None, is the 1-D tensor in which they lie one behind the other; gradients are its own.
    """

    _layout = tessera.strided
    _table = _table

    @classmethod
    def _new(cls, buffer, sizes, parts, source):
        dims = len(sizes[0]) if sizes else 0
        result = cls._make((len(sizes), *(1,) * dims), source)
        result._known_buffer, result._sizes, result._known_parts = buffer, sizes, parts
        result._of_parts = buffer is None
        return result

    @classmethod
    def _from_buffer(cls, buffer, sizes):
        return cls._new(buffer, sizes, None, buffer)

    def _of(self, parts):
        """Other components of the same dtype."""
        return self._new(None, [tuple(part.shape) for part in parts], list(parts), parts[0] if parts else self._buffer)

    @property
    def _parts(self):
        if self._known_parts is None or (not self._of_parts and _cut_off(self._known_parts, [self._known_buffer])):
            begin, self._known_parts = 0, []
            for size in self._sizes:
                count = _count(size)
                self._known_parts.append(self._known_buffer.narrow(0, begin, count).view(size))
                begin += count
        return self._known_parts

    @property
    def _buffer(self):
        """The components one behind the other; a copy where they did not lie so."""
        if self._known_buffer is None or (self._of_parts and _cut_off([self._known_buffer], self._known_parts)):
            self._known_buffer = tessera.cat([part.reshape(-1) for part in self._parts])
        return self._known_buffer

    def values(self):
        """The 1-D tensor in which the components lie one behind the other."""
        return self._buffer

    def _nested_tensor_size(self):
        return _description(self._sizes)[0]

    def _nested_tensor_strides(self):
        return _description(self._sizes)[1]

    def _nested_tensor_storage_offsets(self):
        return _description(self._sizes)[2]

    def _like(self, buffer):
        return self._from_buffer(buffer, self._sizes)

    def _same_sizes(self, other):
        return isinstance(other, StridedNestedTensor) and self._sizes == other._sizes

    def __repr__(self, *, tensor_contents=None):
        def block(part):
            return "\n".join("  " + line for line in repr(part).split("\n"))

        buffer = self._known_buffer
        history = ""
        if buffer is not None and buffer.grad_fn is not None:
            history = f", grad_fn={buffer.grad_fn}"
        elif buffer is not None and buffer.requires_grad:
            history = ", requires_grad=True"
        shown = [part.detach().requires_grad_(bool(history)) for part in self._parts]
        text = ",\n".join(map(block, shown))
        return (
            f"nested_tensor([\n{text}\n]{history})" if tensor_contents is None else f"nested_tensor({tensor_contents})"
        )

    def __deepcopy__(self, memo):
        import copy

        return self._like(copy.deepcopy(self._buffer, memo))

    def __reduce_ex__(self, protocol):
        from tessera._utils import _rebuild_nested_tensor

        return _rebuild_nested_tensor, (self._buffer, *_description(self._sizes))


def _count(size):
    n = 1
    for s in size:
        n *= s
    return n


def _description(sizes):
    """(sizes, strides, offsets) of components as tensors of integers."""
    strides, offsets, begin = [], [], 0
    for size in sizes:
        strides.append([_count(size[d + 1 :]) for d in range(len(size))])
        offsets.append(begin)
        begin += _count(size)
    return tessera.tensor(sizes), tessera.tensor(strides), tessera.tensor(offsets)


def from_description(buffer, sizes, strides, offsets):
    """The nested tensor whose components have these sizes, strides and places in a 1-D buffer: views of it.

    Raises: RuntimeError for components that do not lie inside of the buffer, and for lists that do not fit together.
    """
    if sizes.dim() != 2 or sizes.shape != strides.shape or offsets.shape != sizes.shape[:1]:
        raise RuntimeError(
            f"sizes {tuple(sizes.shape)} and strides {tuple(strides.shape)} must be (B, dimensions) and offsets "
            f"{tuple(offsets.shape)} (B,)"
        )
    shapes = [tuple(size) for size in sizes.tolist()]
    packed = [described.tolist() for described in _description(shapes)[1:]]
    if packed == [strides.tolist(), offsets.tolist()] and buffer.numel() == sum(map(_count, shapes)):
        return StridedNestedTensor._from_buffer(buffer.reshape(-1), shapes)
    parts = []
    for size, stride, offset in zip(shapes, strides.tolist(), offsets.tolist()):
        last = offset + sum((n - 1) * s for n, s in zip(size, stride))
        if offset < 0 or min((*size, *stride, 0)) < 0 or (_count(size) and last >= buffer.numel()):
            raise RuntimeError(
                f"a component of sizes {size}, strides {tuple(stride)} and offset {offset} does not lie inside of a "
                f"buffer of {buffer.numel()} elements"
            )
        parts.append(buffer.as_strided(size, stride, buffer.storage_offset() + offset))
    return StridedNestedTensor._new(None, [tuple(part.shape) for part in parts], parts, parts[0])


common(_table, lambda nested: nested._buffer if is_nested(nested) else nested)


@served(_table, "set requires_grad", "requires_grad_")
def _set_requires_grad(func, args, kwargs):
    nested = args[0]
    nested._buffer.requires_grad_(*args[1:], **kwargs)
    if (
        nested._of_parts and nested._buffer.is_leaf
    ):  # gradients are the buffer's: components are views of it from now on
        nested._of_parts, nested._known_parts = False, None
    return nested


def _contiguous(nested):
    return not nested._of_parts or all(part.is_contiguous() for part in nested._parts)


def _elementwise(func, name, args, kwargs):
    owners = list(nested_among((*args, *kwargs.values())))
    first = owners[0]
    for other in owners[1:]:
        if not first._same_sizes(other):
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
    for arg in args:
        if isinstance(arg, tessera.Tensor) and not is_nested(arg) and arg.dim() > 0:
            raise RuntimeError(
                "Expected both self and other to be nested, but got a nested self and non-nested other"
                if arg is not args[0]
                else "Expected both self and other to be nested, but got a non-nested self and nested other"
            )

    def each(convert):
        return func(*map(convert, args), **{key: convert(value) for key, value in kwargs.items()})

    if name == "contiguous":
        return first if _contiguous(first) else first._like(first._buffer)
    inplace = name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
    written = inplace and is_nested(args[0]) and args[0]._of_parts  # where its buffer is a copy
    if not written and all(owner._known_buffer is not None for owner in owners):
        found = each(lambda value: value._known_buffer if is_nested(value) else value)
        if not isinstance(found, tessera.Tensor):
            return found
        return args[0] if is_nested(args[0]) and found is args[0]._known_buffer else first._like(found)
    found = [each(lambda value, i=i: value._parts[i] if is_nested(value) else value) for i in range(len(first._sizes))]
    if found and not isinstance(found[0], tessera.Tensor):
        return found[0]
    if written:
        args[0]._known_buffer = None
    if is_nested(args[0]) and all(a is b for a, b in zip(found, args[0]._parts)):
        return args[0]
    return first._of(found)


StridedNestedTensor._elementwise = staticmethod(_elementwise)


@served(_table, "get shape", "size", "stride")
def _size(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if dim is None or name == "stride":
        what = "strides" if name == "stride" else "sizes"
        raise RuntimeError(
            f"a nested tensor of the strided layout has no {what} of its own: ask its components (unbind()), or "
            "size(dim) for a dimension in which they agree"
        )
    dim = normalized(dim, _dims(nested))
    if dim == 0:
        return len(nested._sizes)
    found = {size[dim - 1] for size in nested._sizes}
    if len(found) != 1:
        raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
    return found.pop()


def _dims(nested):
    return len(nested._sizes[0]) + 1 if nested._sizes else 1


_table["__len__"] = lambda func, args, kwargs: len(args[0]._sizes)
_table["numel"] = _table["nelement"] = lambda func, args, kwargs: sum(map(_count, args[0]._sizes))
_table["is_contiguous"] = lambda func, args, kwargs: _contiguous(args[0])
_table["values"] = lambda func, args, kwargs: args[0]._buffer
_table["storage_offset"] = lambda func, args, kwargs: args[0]._buffer.storage_offset()
_table["get nbytes"] = lambda func, args, kwargs: args[0]._buffer.nbytes


@served(_table, "unbind")
def _unbind(func, args, kwargs):
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if normalized(dim, _dims(args[0])) != 0:
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(args[0]._parts)


@served(_table, "__getitem__", "select")
def _getitem(func, args, kwargs):
    nested, index = args[0], args[1:]
    if plain_name(func) == "__getitem__":
        index = index[0] if isinstance(index[0], tuple) else index
    else:
        dim = normalized(index[0], _dims(nested))
        index = (slice(None),) * dim + index[1:]
    if isinstance(index[0], int) and not isinstance(index[0], bool):
        part = nested._parts[index[0]]
        return part[index[1:]] if len(index) > 1 else part
    if index[0] == slice(None) or index[0] is Ellipsis:
        return nested._of([part[index[1:] if index[0] is not Ellipsis else index] for part in nested._parts])
    raise NotImplementedError("a nested tensor of the strided layout is indexed by one component first")


def _cut_off(derived, sources):
    """Whether what was made of tensors while no history was written lacks that of theirs now."""
    return (
        tessera.is_grad_enabled()
        and any(source.requires_grad for source in sources)
        and all(tensor.grad_fn is None for tensor in derived)
    )


def _each(function, nested):
    return nested._of([function(part) for part in nested._parts])


def _inner(nested, dim, name):
    dim = normalized(dim, _dims(nested))
    if dim == 0:
        raise RuntimeError(f"{name}: Nested tensor dimension 0 cannot be used: it is the list of components")
    return dim - 1


@served(_table, "transpose", "swapaxes", "swapdims")
def _transpose(func, args, kwargs):
    nested = args[0]
    a, b = (_inner(nested, d, "transpose") for d in (*args[1:], *kwargs.values()))
    return _each(lambda part: part.transpose(a, b), nested)


_table["get mT"] = lambda func, args, kwargs: _transpose(func, (args[0], -2, -1), {})


@served(_table, "unsqueeze")
def _unsqueeze(func, args, kwargs):
    dim = normalized(args[1] if len(args) > 1 else kwargs["dim"], _dims(args[0]) + 1)
    if dim == 0:
        raise RuntimeError("unsqueeze: Nested tensor dimension 0 cannot be unsqueezed")
    return _each(lambda part: part.unsqueeze(dim - 1), args[0])


@served(_table, "squeeze", "unflatten", "narrow", "index_select", "flip")
def _one_dim(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    kwargs = dict(kwargs)
    dim = args[1] if len(args) > 1 else kwargs.pop("dim", None)
    if dim is None:
        raise RuntimeError(f"{name}: a nested tensor needs the dimension to be given")
    if name == "narrow" and dim in (0, -_dims(nested)):
        given = list(args[2:]) + [kwargs[key] for key in ("start", "length") if key in kwargs]
        start, length = given
        start += len(nested) if start < 0 else 0
        if start < 0 or length < 0 or start + length > len(nested):
            raise RuntimeError(f"narrow: {length} components from {start} on are not among the {len(nested)} there are")
        return nested._of(nested._parts[start : start + length])
    inner = _inner(nested, dim[0] if isinstance(dim, (tuple, list)) else dim, name)
    return _each(lambda part: getattr(part, name)(inner, *args[2:], **kwargs), nested)


@served(_table, "flatten")
def _flatten(func, args, kwargs):
    start = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
    end = args[2] if len(args) > 2 else kwargs.get("end_dim", -1)
    a, b = _inner(args[0], start, "flatten"), _inner(args[0], end, "flatten")
    return _each(lambda part: part.flatten(a, b), args[0])


@served(_table, "view", "reshape")
def _view(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    shape = args[1:] or tuple(kwargs.values())
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not shape or shape[0] not in (len(nested._sizes), -1):
        raise RuntimeError(f"{name}: the first size must be that of the batch, {len(nested._sizes)}, got {shape}")
    inner = [d for d, n in enumerate(shape[1:]) if n == -1]
    kept = [d for d in inner if d < _dims(nested) - 1]

    def each(part):
        sizes = list(shape[1:])
        if len(inner) > 1:
            for d in kept:
                sizes[d] = part.shape[d]
        return getattr(part, name)(sizes)

    return _each(each, nested)


@served(_table, "softmax log_softmax softmin _softmax _log_softmax cumsum cumprod")
def _scan(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    kwargs = {key: value for key, value in kwargs.items() if key != "_stacklevel"}
    dim = args[1] if len(args) > 1 else kwargs.pop("dim")
    inner = _inner(nested, dim, name)
    rest = () if name.startswith("_") else args[2:]
    return _each(lambda part: getattr(tessera, name.strip("_"))(part, inner, *rest, **kwargs), nested)


@served(_table, "sum", "mean")
def _reduce(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if dim is None:
        return getattr(nested._buffer, name)(**kwargs)
    keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    if not isinstance(dim, int) or normalized(dim, _dims(nested)) != _dims(nested) - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dim} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    dtype = kwargs.get("dtype")
    return _each(lambda part: getattr(part, name)(-1, keepdim=True, dtype=dtype), nested)


def _last(nested):
    found = {size[-1] for size in nested._sizes}
    return found.pop() if len(found) == 1 else None


@served(_table, "linear")
def _linear(func, args, kwargs):
    nested, weight = args[0], args[1] if len(args) > 1 else kwargs["weight"]
    last = _last(nested)
    if last != weight.shape[1]:
        raise RuntimeError(
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
            f"'weight.size(1), but got: last_dim = {last}, and weight.size(1) = {weight.shape[1]}"
        )
    found = func(nested._buffer.view(-1, last), *args[1:], **kwargs)
    return nested._from_buffer(found.reshape(-1), [(*size[:-1], weight.shape[0]) for size in nested._sizes])


@served(_table, "matmul", "bmm", "__matmul__")
def _matmul(func, args, kwargs):
    a, b = args[0], args[1] if len(args) > 1 else next(iter(kwargs.values()))
    if is_nested(a) and not is_nested(b) and b.dim() == 2 and _dims(a) >= 4:
        return _each(lambda part: part @ b, a)
    for one, other, place in ((a, b, "self"), (b, a, "other")):
        if not is_nested(other):
            shown = ("nested self and non-nested other", "non-nested self and nested other")[place == "other"]
            raise RuntimeError(f"Expected both to be nested, but got a {shown}")
    if len(a._sizes) != len(b._sizes):
        raise RuntimeError(f"matmul: batches of {len(a._sizes)} and {len(b._sizes)} components do not fit together")
    return a._of([p @ q for p, q in zip(a._parts, b._parts)])


@served(_table, "layer_norm", "rms_norm")
def _norm(func, args, kwargs):
    nested = args[0]
    weight = args[2] if len(args) > 2 else kwargs.get("weight")
    bias = args[3] if len(args) > 3 else kwargs.get("bias")
    if plain_name(func) == "layer_norm" and (weight is None or bias is None):
        raise ValueError("NestedTensor layer_norm requires weight and bias")
    shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size[len(size) - len(shape) :] != shape or len(shape) >= _dims(nested) for size in nested._sizes):
        raise RuntimeError(f"layer_norm: normalized_shape {shape} does not fit components of sizes {nested._sizes}")
    return nested._like(func(nested._buffer.view(-1, *shape), *args[1:], **kwargs).reshape(-1))


@served(_table, "embedding")
def _embedding(func, args, kwargs):
    nested = next(nested_among(args))
    found = func(*[arg._buffer if is_nested(arg) else arg for arg in args], **kwargs)
    return nested._from_buffer(found.reshape(-1), [(*size, found.shape[-1]) for size in nested._sizes])


@served(_table, "cat", "concat", "concatenate")
def _cat(func, args, kwargs):
    tensors = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if not all(isinstance(t, StridedNestedTensor) for t in tensors):
        raise RuntimeError("cat: expected all tensors to be nested tensors of the strided layout")
    if dim == 0:
        return tensors[0]._of([part for tensor in tensors for part in tensor._parts])
    inner = _inner(tensors[0], dim, "cat")
    return tensors[0]._of([tessera.cat(parts, inner) for parts in zip(*(tensor._parts for tensor in tensors))])


@served(_table, "chunk", "split", "split_with_sizes")
def _split(func, args, kwargs):
    nested, name = args[0], plain_name(func)
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    inner = _inner(nested, dim, name)
    how = args[1] if len(args) > 1 else next(value for key, value in kwargs.items() if key != "dim")
    found = [getattr(part, name)(how, inner) for part in nested._parts]
    return tuple(nested._of(parts) for parts in zip(*found))


@served(_table, "to_padded_tensor")
def _to_padded_tensor(func, args, kwargs):
    nested, padding = args[0], args[1] if len(args) > 1 else kwargs["padding"]
    output_size = args[2] if len(args) > 2 else kwargs.get("output_size")
    if not nested._sizes:
        return tessera.empty(0)
    largest = [max(sizes) for sizes in zip(*nested._sizes)]
    if output_size is not None:
        wanted = tuple(output_size)
        if len(wanted) != len(largest) + 1 or wanted[0] != len(nested._sizes):
            raise RuntimeError(
                f"to_padded_tensor: output_size {wanted} must be ({len(nested._sizes)}, *{largest}) or more"
            )
        if any(w < have for w, have in zip(wanted[1:], largest)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        largest = list(wanted[1:])
    pad = tessera.nn.functional.pad
    padded = []
    for part in nested._parts:
        missing = [n - have for n, have in zip(largest, part.shape)]
        padded.append(pad(part, [entry for extra in reversed(missing) for entry in (0, extra)], value=padding))
    return tessera.stack(padded)


@served(_table, "scaled_dot_product_attention")
def _attention(func, args, kwargs):
    return strided_attention(*args, **kwargs)


_table["data_ptr"] = lambda func, args, kwargs: args[0]._buffer.data_ptr()


@served(_table, "all", "any")
def _truth(func, args, kwargs):
    return getattr(args[0]._buffer, plain_name(func))()
