"""MaskedTensor: data with a mask that says which elements are there.

It is a tensor subclass without memory of its own. Operators come to `__torch_dispatch__`, below autograd, and are
served by the kind that a table gives them: elementwise ones work on the data and keep the mask, those that move
elements work on both. Reductions are taken above autograd, by the functions of `tessera.masked`, because the gradient
of a sum has the mask of what was summed.
"""

import warnings

import tessera
from tessera.masked import _ops
from tessera.masked.maskedtensor._base import Masked, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]

_UNARY = frozenset(
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil "
    "clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 "
    "log1p log2 logit i0 isfinite isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid "
    "sign sgn signbit sin sinc sinh sqrt square tan tanh trunc _square _clamp_scalar _clamp_tensor".split()
)
_BINARY = frozenset(
    "add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide "
    "floor_divide fmod logaddexp logaddexp2 rsub mul multiply nextafter remainder sub subtract true_divide eq ne le ge "
    "greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal _div_trunc".split()
)
_MOVING = frozenset(
    "select transpose split t slice slice_backward select_backward index expand view _unsafe_view _reshape_alias cat "
    "unsqueeze unfold unfold_backward im2col col2im stack alias detach clone contiguous permute squeeze unbind".split()
)
_NUMBERS = frozenset("item __float__ __int__ __bool__ __index__ __complex__".split())
_REDUCTIONS = frozenset("sum mean amin amax argmin argmax prod all norm var std".split())
_DTYPES = frozenset(
    (
        tessera.float16,
        tessera.float32,
        tessera.float64,
        tessera.bool,
        tessera.int8,
        tessera.int16,
        tessera.int32,
        tessera.int64,
    )
)
_LAYOUTS = (tessera.strided, tessera.sparse_coo, tessera.sparse_csr)


def _data(value):
    return value._masked_data if isinstance(value, MaskedTensor) else value


def _mask(value):
    return value._masked_mask if isinstance(value, MaskedTensor) else value


def _map(function, values):
    """`function` of every masked tensor among arguments, also in lists and tuples."""
    if isinstance(values, (list, tuple)):
        return type(values)(_map(function, value) for value in values)
    if isinstance(values, dict):
        return {key: _map(function, value) for key, value in values.items()}
    return function(values)


def _indices(sparse):
    if sparse.layout is tessera.sparse_coo:
        return (sparse._indices(),)
    return sparse.crow_indices(), sparse.col_indices()


def _is_plain_tensor(value):
    return isinstance(value, tessera.Tensor) and not isinstance(value, MaskedTensor) and value.dim() > 0


def _equal(a, b):
    return a.shape == b.shape and tessera.equal(a, b)


def _stored(sparse):
    return sparse._values() if sparse.layout is tessera.sparse_coo else sparse.values()


def _stored_data(value):
    """The values that a sparse masked tensor stores; anything else as it is."""
    return _stored(value._masked_data) if isinstance(value, MaskedTensor) else value


def _with_values(pattern, values):
    """A sparse tensor that stores `values` where `pattern` stores its own."""
    if pattern.layout is tessera.sparse_coo:
        made, flag = (pattern._indices(), values, pattern.shape), pattern.is_coalesced()
        return tessera.sparse_coo_tensor(*made, is_coalesced=flag)
    return tessera.sparse_csr_tensor(*_indices(pattern), values, pattern.shape)


def _same(a, b):
    return a is b or (
        a.layout == b.layout
        and a.shape == b.shape
        and (tessera.equal(a, b) if a.layout is tessera.strided else all(map(_equal, _indices(a), _indices(b))))
    )


def _common_mask(args):
    """The one mask of the masked tensors among `args`; ValueError where they differ."""
    masks = [arg._masked_mask for arg in args if isinstance(arg, MaskedTensor)]
    if any(not _same(masks[0], other) for other in masks[1:]):
        raise ValueError(
            "Input masks must match. The masks of the operands of an elementwise operator have to be equal; bring "
            "them together first, such as with as_masked_tensor(x.get_data(), x.get_mask() & y.get_mask())."
        )
    return masks[0]


class _Wrap(tessera.autograd.Function):
    """data -> masked tensor; a gradient goes back as it is."""

    @staticmethod
    def forward(_ctx, data, mask):
        return MaskedTensor._plain(data, mask)

    @staticmethod
    def backward(_ctx, grad):
        return grad, None


class _Data(tessera.autograd.Function):
    """masked tensor -> its data; a gradient gets the mask."""

    @staticmethod
    def forward(ctx, masked):
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx, grad):
        if not isinstance(grad, MaskedTensor):
            return MaskedTensor._plain(grad, ctx.mask)
        mask = grad._masked_mask
        if mask.layout is not tessera.strided or ctx.mask.layout is not tessera.strided:
            return grad
        return MaskedTensor._plain(grad._masked_data, mask if mask is ctx.mask else mask & ctx.mask)


class _Reduce(tessera.autograd.Function):
    """A reduction of the elements that are there."""

    @staticmethod
    def forward(ctx, masked, name, args, kwargs):
        ctx.masked, ctx.call = masked.detach(), (name, args, kwargs)
        return _reduced(masked._masked_data.detach(), masked._masked_mask, name, args, kwargs)

    @staticmethod
    def backward(ctx, grad):
        mask = ctx.masked._masked_mask
        with tessera.enable_grad():
            data = ctx.masked._masked_data.detach().requires_grad_()
            result = _reduced(data, mask, *ctx.call, values_only=True)
        value = grad.to_tensor(0) if isinstance(grad, MaskedTensor) else grad
        (into,) = tessera.autograd.grad(result, data, value)
        return MaskedTensor._plain(into, mask), None, None, None


def _reduced(data, mask, name, args, kwargs, values_only=False):
    if name == "all":
        filled = tessera.where(mask, data.to(tessera.bool), True)
        result = filled.all(*args, **kwargs)
        order = args
    else:
        function = getattr(_ops, name)
        kwargs = {("ord" if key == "p" else key): value for key, value in kwargs.items()}
        result = function(data, *args, mask=mask, **kwargs)
        order = args[1:] if name == "norm" else args
    if values_only:
        return result
    dim = order[0] if order else kwargs.get("dim")
    keepdim = order[1] if len(order) > 1 and name not in ("var", "std") else kwargs.get("keepdim", False)
    dense = mask if mask.layout is tessera.strided else mask.to_dense()
    known = _ops._any(dense, _ops._canonical_dim(dim, mask.dim()), keepdim)
    if result.layout is not tessera.strided:
        result = result.to_dense()
    return MaskedTensor._plain(result, known.reshape(result.shape))


def _element(value, masked_in):
    if not masked_in:
        return "--"
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _text(data, mask, width, indent):
    """Nested lists of formatted elements, rows on lines of their own."""
    if data and not isinstance(data[0], list):
        parts = (text.rjust(width) if (text := _element(d, m)) == "--" else text for d, m in zip(data, mask))
        return " " * indent + "[" + ", ".join(parts) + "]"
    inside = ",\n".join(_text(d, m, width, indent + 2) for d, m in zip(data, mask))
    return " " * indent + "[\n" + inside + "\n" + " " * indent + "]" if inside else " " * indent + "[]"


class MaskedTensor(Masked):
    """A tensor with a mask of the same size: True where an element is there.

    Args: as `masked_tensor`, which is the way to make one.
    """

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        warnings.warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a "
            "Github issue for features requests and see our documentation on the torch.masked module for further "
            "information about the project.",
            UserWarning,
            stacklevel=2,
        )
        data = _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you "
                "can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        return cls._plain(data.detach().clone(), mask.detach().clone(), requires_grad)

    @classmethod
    def _plain(cls, data, mask, requires_grad=False):
        """Over the memory of `data` and `mask`, without history."""
        result = tessera.Tensor._make_wrapper_subclass(
            cls,
            data.shape,
            strides=data.stride() if data.layout is tessera.strided else None,
            dtype=data.dtype,
            layout=data.layout,
            device=data.device,
            requires_grad=requires_grad,
        )
        result._masked_data = data.detach()
        result._masked_mask = mask
        return result

    @classmethod
    def _from_values(cls, data, mask):
        data = _check(data, mask)
        return _Wrap.apply(data, mask)

    def __repr__(self, *, tensor_contents=None):
        data, mask = self._masked_data, self._masked_mask
        if tensor_contents is not None:
            return f"MaskedTensor({tensor_contents})"
        if data.layout is not tessera.strided:
            data, mask = data.to_dense(), mask.to_dense()
        if data.dim() == 0:
            known = bool(mask)
            return f"MaskedTensor({_element(data.item(), known)}, {known})"
        there = data[mask].tolist()
        width = max([8] + [len(_element(value, True)) for value in there])
        return f"MaskedTensor(\n{_text(data.tolist(), mask.tolist(), width, 2)}\n)"

    def get_data(self):
        """The data, also where elements are not there; gradients of it come back with the mask."""
        return _Data.apply(self)

    def to_tensor(self, value):
        """A tensor with `value` where elements are not there."""
        data = self.get_data()
        if data.layout is not tessera.strided:
            data = data.to_dense()
        mask = self._masked_mask if self._masked_mask.layout is tessera.strided else self._masked_mask.to_dense()
        return data.masked_fill(~mask, value)

    def is_sparse_coo(self):
        """Whether the data are sparse in the layout COO."""
        return self.layout == tessera.sparse_coo

    def is_sparse_csr(self):
        """Whether the data are sparse in the layout CSR."""
        return self.layout == tessera.sparse_csr

    @property
    def is_sparse(self):
        """Whether the data are sparse."""
        return self.is_sparse_coo() or self.is_sparse_csr()

    @classmethod
    def unary(cls, fn, data, mask):
        """`fn` of data with a mask, as a masked tensor."""
        return cls._plain(fn(data), mask)

    def __deepcopy__(self, memo):
        return type(self)._plain(self._masked_data.clone(), self._masked_mask.clone(), self.requires_grad)

    def __reduce_ex__(self, protocol):
        return _rebuild, (self._masked_data, self._masked_mask, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        saved = tessera._C._set_torch_function_subclass_disabled(True)
        try:
            if name in _REDUCTIONS and args and isinstance(args[0], MaskedTensor):
                if name in ("argmin", "argmax", "all") or not args[0].requires_grad:
                    return _reduced(args[0]._masked_data, args[0]._masked_mask, name, args[1:], kwargs)
                return _Reduce.apply(args[0], name, args[1:], kwargs)
            if name == "where" and len(args) == 3 and args[0].dtype is not tessera.bool:  # x.where(condition, other)
                return _where(args[1], args[0], args[2])
            if name == "where" and not isinstance(args[0], MaskedTensor):
                return _where(*args, **kwargs)
            if name in ("is_contiguous", "contiguous") and args[0].layout is not tessera.strided:
                raise ValueError("MaskedTensors with sparse data do not have is_contiguous; ask to_dense() for it")
            if name in _NUMBERS and isinstance(args[0], MaskedTensor):
                return func(_number(args[0]))
            if name in ("to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr") and isinstance(
                args[0], MaskedTensor
            ):
                return _Convert.apply(args[0], name, kwargs)
            return func(*args, **kwargs)
        finally:
            tessera._C._set_torch_function_subclass_disabled(saved)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _dispatched(func, args, kwargs or {})


def _number(masked):
    """The data of a masked tensor with one element, which has to be there."""
    if masked.numel() == 1 and not bool(masked._masked_mask):
        raise ValueError("the only element of this masked tensor is not there: ask to_tensor(value).item()")
    return masked._masked_data


def _rebuild(data, mask, requires_grad):
    return MaskedTensor._plain(data, mask, requires_grad)


class _Convert(tessera.autograd.Function):
    """Between layouts; the gradient goes back to that of the input."""

    @staticmethod
    def forward(ctx, masked, name, kwargs):
        ctx.layout = masked.layout
        data, mask = masked._masked_data, masked._masked_mask
        if name == "to_dense":
            if data.layout is tessera.strided:
                return MaskedTensor._plain(data, mask)
            return MaskedTensor._plain(data.to_dense(**kwargs), mask.to_dense())
        layout = tessera.sparse_csr if name == "to_sparse_csr" else tessera.sparse_coo
        if data.layout is layout:
            return MaskedTensor._plain(data, mask)
        dense = mask if mask.layout is tessera.strided else mask.to_dense()
        pattern = dense.to_sparse(layout=layout)
        return MaskedTensor._plain(data.to_dense().sparse_mask(pattern), pattern)

    @staticmethod
    def backward(ctx, grad):
        name = {tessera.strided: "to_dense", tessera.sparse_csr: "to_sparse_csr"}.get(ctx.layout, "to_sparse")
        if isinstance(grad, MaskedTensor):  # whose own methods are not asked while a backward pass is one of them
            return _Convert.apply(grad, name, {}), None, None
        return getattr(grad, name)(), None, None


def _where(condition, input, other):
    """Elements of `input` or `other`, each with its own place in the mask."""
    parts = [
        (part._masked_mask if isinstance(part, MaskedTensor) else tessera.ones_like(condition))
        for part in (input, other)
    ]
    values = [part.get_data() if isinstance(part, MaskedTensor) else part for part in (input, other)]
    return _Wrap.apply(tessera.where(condition, *values), tessera.where(condition, *parts))


def _check(data, mask):
    for value, what in ((data, "data"), (mask, "mask")):
        if not isinstance(value, tessera.Tensor) or isinstance(value, MaskedTensor):
            raise TypeError(f"{what} must be a Tensor without a mask of its own, got {type(value).__name__}")
    if data.layout not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if mask.dtype != tessera.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")
    if data.layout is tessera.strided or all(map(_equal, _indices(data), _indices(mask))):
        return data
    # A mask that names some of the places that data stores.
    of = {tessera.sparse_csr: "CSR tensors but do not share either crow or col indices."}
    stored = _with_values(data, tessera.ones_like(_stored(data), dtype=tessera.int8)).to_dense()
    named = _with_values(mask, tessera.ones_like(_stored(mask), dtype=tessera.int8)).to_dense()
    if (named > stored).any():
        raise ValueError(
            "data and mask are both sparse " + of.get(data.layout, "COO tensors but do not have the same indices.")
        )
    return data.sparse_mask(mask)


def _elementwise(func, name, args, kwargs):
    mask = _common_mask(args)
    stored = mask.layout is not tessera.strided and not any(map(_is_plain_tensor, args))
    of = _stored_data if stored else _data
    result = func(*_map(of, args), **_map(of, kwargs))
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    if stored:
        return MaskedTensor._plain(_with_values(mask, result), mask)
    if result.shape != mask.shape and mask.layout is tessera.strided:
        mask = mask.expand(result.shape)
    return MaskedTensor._plain(result, mask)


def _mask_number(value):
    return value._masked_mask.float() if isinstance(value, MaskedTensor) else value


def _moved(func, args, kwargs):
    data = func(*_map(_data, args), **_map(_data, kwargs))
    summed = func.overloadpacket.__name__ in ("im2col", "col2im", "unfold_backward")  # not of bool
    of = _mask_number if summed else _mask
    mask = func(*_map(of, args), **_map(of, kwargs))
    if summed:
        return MaskedTensor._plain(data, mask != 0)
    if isinstance(data, (list, tuple)):
        return type(data)(MaskedTensor._plain(d, m) for d, m in zip(data, mask))
    return MaskedTensor._plain(data, mask)


def _softmax(func, args, kwargs):
    masked, dim = args[0], args[1]
    data, mask = masked._masked_data, masked._masked_mask
    if data.dim() and not any(args[2:]) and _ops._in_one_pass("softmax", data, mask, (dim,)):
        return MaskedTensor._plain(tessera._softmax_under(data, mask, dim), mask)
    return MaskedTensor._plain(func(tessera.where(mask, data, float("-inf")), dim, *args[2:], **kwargs), mask)


def _softmax_backward(func, args, kwargs):
    mask = _common_mask(args)
    values = [tessera.where(mask, _data(arg), 0) for arg in args[:2]]
    return MaskedTensor._plain(func(*values, *args[2:], **kwargs), mask)


def _dispatched(func, args, kwargs):
    """What an operator makes of masked tensors, or NotImplemented."""
    name = func.overloadpacket.__name__
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    first = next(arg for arg in (*args, *kwargs.values()) if _has_masked(arg))
    if name in _MOVING:
        return _moved(func, args, kwargs)
    if base in _UNARY or base in _BINARY or (name.endswith("_backward") and "softmax" not in name):
        return _elementwise(func, name, args, kwargs)
    if name in ("_softmax", "softmax"):
        return _softmax(func, args, kwargs)
    if name == "_softmax_backward_data":
        return _softmax_backward(func, args, kwargs)
    if name in ("_to_copy", "ones_like", "new_empty_strided", "empty_like"):
        return MaskedTensor._plain(func(_data(first), *args[1:], **kwargs), first._masked_mask)
    if name == "_local_scalar_dense":
        return func(_number(first))
    if name == "copy_":
        if not isinstance(args[1], MaskedTensor) or not _same(args[0]._masked_mask, args[1]._masked_mask):
            raise ValueError("copy_: expected a masked tensor with the same mask")
        args[0]._masked_data.copy_(args[1]._masked_data)
        return args[0]
    if name in ("where", "_where"):
        return _where(*args)
    if name == "any":
        result = func(tessera.where(first._masked_mask, first._masked_data, False), *args[1:], **kwargs)
        return MaskedTensor._plain(result, tessera.ones_like(result, dtype=tessera.bool))
    if name in ("is_same_size", "stride", "is_contiguous"):
        return func(*_map(_data, args), **kwargs)
    return NotImplemented


def _has_masked(value):
    return isinstance(value, MaskedTensor) or (
        isinstance(value, (list, tuple)) and any(isinstance(item, MaskedTensor) for item in value)
    )
