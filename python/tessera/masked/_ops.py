"""Reductions, normalisations and scans under a mask.

`mask` is a bool tensor that broadcasts to the input, of any layout: True where an element counts, whether or not a
sparse input stores it. Without it all do; those of a sparse input that are not stored do not. What stands in the place
of an element that does not count is the identity of the operation, so a row without any gives the identity, or NaN
where there is none.
"""

import tessera
from tessera._lazy import require
from tessera.masked.maskedtensor._base import is_masked_tensor

_any_overload = tessera.any
_FLOATS = frozenset((tessera.float16, tessera.bfloat16, tessera.float32, tessera.float64))
_NUMBERS = _FLOATS | frozenset((tessera.bool, tessera.uint8, tessera.int8, tessera.int16, tessera.int32, tessera.int64))
_REDUCTIONS = frozenset("sum prod amax amin argmax argmin mean median norm var std logsumexp".split())


def _canonical_dim(dim, ndim):
    """The dimensions that `dim` (None or empty: all) means, in ascending order.

    Raises: IndexError for one out of range, RuntimeError for one given twice.
    """
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    room = max(ndim, 1)
    dims = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -room <= d < room:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-room}, {room - 1}], but got {d})")
        if d % room in dims:
            raise RuntimeError(f"dim={d % room} appears multiple times in the list of dims")
        dims.append(d % room)
    return tuple(sorted(dims))


def _extreme(dtype, lowest):
    if dtype.is_floating_point:
        return float("-inf") if lowest else float("inf")
    if dtype is tessera.bool:
        return not lowest
    limits = tessera.iinfo(dtype)
    return limits.min if lowest else limits.max


def _identity(op_name, dtype, ord=2.0):
    if op_name in ("sum", "cumsum", "norm", "normalize"):
        return float("inf") if op_name == "norm" and ord == float("-inf") else 0
    if op_name in ("prod", "cumprod"):
        return 1
    if op_name in ("amax", "argmax", "logsumexp", "logaddexp", "softmax", "log_softmax"):
        return _extreme(dtype, True) if not dtype.is_complex else float("-inf")
    if op_name in ("amin", "argmin", "softmin"):
        return _extreme(dtype, False)
    if op_name == "median":
        return float("nan") if dtype.is_floating_point else None
    return None


def _reduction_identity(op_name, input, *args):
    """What an element that does not count is worth: a tensor of no dimensions, or None where nothing is neutral."""
    value = _identity(op_name, input.dtype, *args[:1])
    return None if value is None else tessera.tensor(value, dtype=input.dtype, device=input.device)


def _where(mask, input, fill_value):
    """`input` where `mask` is True, `fill_value` elsewhere, in the input's layout. A sparse result stores what the mask
    stores or names; what it does not is worth `fill_value`."""
    if input.layout is tessera.strided:
        return tessera.where(_strided(mask), input, fill_value)
    known = _strided(mask)
    values = tessera.where(known, input.to_dense(), 0 if fill_value is None else fill_value)
    sparse_dim = input.sparse_dim() if input.layout is tessera.sparse_coo else 2
    if known.dim() > sparse_dim:
        known = known.flatten(sparse_dim).any(-1)
    if input.layout is not tessera.sparse_coo:
        return values.sparse_mask(known.to_sparse(layout=input.layout))
    places = known.nonzero().t()
    return tessera.sparse_coo_tensor(places, values[tuple(places)], values.shape, is_coalesced=True)


def _strided(mask):
    return mask if mask.layout is tessera.strided else mask.to_dense()


def _input_mask(input, *, mask=None):
    """The mask as a bool tensor of the input's shape; all True without one.

    Raises: IndexError for a mask of more dimensions, RuntimeError for one that does not broadcast, ValueError for an
    input that is not a tensor of a known layout.
    """
    if is_masked_tensor(input):
        own = input.get_mask()
        mask = own if mask is None else mask.to(tessera.bool) & own
        input = input.get_data()
    if mask is None:
        return tessera.ones(input.shape, dtype=tessera.bool, device=input.device)
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return _strided(mask).to(tessera.bool).expand(input.shape)


def _output_mask(op, input, *args, **kwargs):
    """The mask of what the function `op` returns: True where any element that counts went into it.

    Raises: ValueError for a function that is none of this module's.
    """
    name = getattr(op, "__name__", str(op))
    mask = _input_mask(input, mask=kwargs.get("mask"))
    if name not in _REDUCTIONS:
        if name in ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"):
            return mask
        raise ValueError(f"_output_mask expected masked operation (got callable {name})")
    rest = args[1:] if name == "norm" else args
    dim = rest[0] if rest else kwargs.get("dim", -1 if name == "median" else None)
    return _any(mask, _canonical_dim(dim, input.dim()), kwargs.get("keepdim", False))


def _combine_input_and_mask(op, input, mask, *args):
    """The input with the identity of `op` where the mask is False."""
    if is_masked_tensor(input):
        mask = _input_mask(input, mask=mask)
        input = input.get_data()
    elif mask is None:
        return input
    name = op if isinstance(op, str) else op.__name__
    return _where(_input_mask(input, mask=mask), input, _reduction_identity(name, input, *args))


def _any(mask, dims, keepdim):
    for dim in reversed(dims):
        mask = _any_overload(mask, dim, keepdim) if mask.dim() else mask
    return mask


def _checked(name, input, mask):
    """(dense values, mask or None, layout to return). A sparse input's elements that are not stored do not count."""
    if is_masked_tensor(input):
        mask = _input_mask(input, mask=mask)
        input = input.get_data()
    if not isinstance(input, tessera.Tensor):
        raise TypeError(f"{name}(): expected a tensor or a masked tensor, got {type(input).__name__}")
    layout = input.layout
    if layout is tessera.strided:
        return input, None if mask is None else _input_mask(input, mask=mask), layout
    return input.to_dense(), _pattern(input) if mask is None else _input_mask(input, mask=mask), layout


def _pattern(sparse):
    if sparse.layout is tessera.sparse_coo:
        sparse = sparse.coalesce()
        ones = tessera.ones_like(sparse.values(), dtype=tessera.int8)
        return require("sparse_coo_tensor", "masked.sum()")(sparse.indices(), ones, sparse.shape).to_dense().bool()
    ones = tessera.ones_like(sparse.values(), dtype=tessera.int8)
    parts = (
        (sparse.crow_indices(), sparse.col_indices())
        if sparse.layout in (tessera.sparse_csr, tessera.sparse_bsr)
        else (sparse.ccol_indices(), sparse.row_indices())
    )
    make = require("sparse_compressed_tensor", "masked.sum()")
    return make(*parts, ones, sparse.shape, layout=sparse.layout).to_dense().bool()


def _in_layout(result, layout, mask, dims, keepdim):
    """A dense result in the layout of the input, where that has so few dimensions: what no element went into is not
    stored.
    """
    if layout is tessera.strided or (layout is not tessera.sparse_coo and result.dim() < 2):
        return result
    partial = len(dims) < mask.dim()  # of a whole tensor the number is stored in any case
    known = _any(mask, dims, keepdim) if partial else tessera.ones_like(result, dtype=tessera.bool)
    result = _where(known, result, result.new_zeros(()))
    return result.to_sparse() if layout is tessera.sparse_coo else result.to_sparse(layout=layout)


def _in_one_pass(name, values, mask, dims):
    """Whether a reduction engine reads values and mask together: dense real numbers on the CPU."""
    return (
        mask is not None
        and values.dtype in (_NUMBERS if name in ("sum", "prod", "amax", "amin") else _FLOATS)
        and (values.is_cpu or values.is_meta)
        and (len(dims) > 0 or values.dim() == 0)
        and values.numel() > 0
    )


def _filled(name, values, mask, *args):
    return values if mask is None else _where(mask, values, _reduction_identity(name, values, *args))


def _described(text, identity):
    """Adds to a function what all of them share."""

    def describe(function):
        kept = "" if identity is None else f" A slice of which nothing counts gives {identity}."
        function.__doc__ = (
            f"{text} of the elements for which `mask` is True.{kept}\n\n"
            "Args: `input`, a tensor or masked tensor; `dim`, the dimension or dimensions (None: all); `keepdim`, "
            "whether they stay with size 1; `dtype`, what the input is converted to first; `mask`, a bool tensor that "
            "broadcasts to the input.\n\n"
            "Raises: IndexError for a dimension out of range or a mask of more dimensions than the input, RuntimeError "
            "for a dimension given twice or a mask that does not broadcast."
        )
        return function

    return describe


def _reduce(name, input, dim, keepdim, dtype, mask, function, *args):
    values, mask, layout = _checked(name, input, mask)
    dims = _canonical_dim(dim, values.dim())
    if name == "sum" and _in_one_pass(name, values, mask, dims) and (dtype is None or not dtype.is_complex):
        result = tessera._masked_sum(values, mask, dims, bool(keepdim), dtype=dtype or values.dtype)
        return _in_layout(result, layout, mask, dims, bool(keepdim))
    if dtype is not None:
        values = values.to(dtype)
    if (
        layout is not tessera.strided
        and name in ("amax", "amin")
        and values.dim()
        and any(values.shape[d] == 0 for d in dims)
    ):
        shape = [1 if d in dims else n for d, n in enumerate(values.shape) if keepdim or d not in dims]
        result = values.new_full(shape, _reduction_identity(name, values).item())
    elif not _in_one_pass(name, values, mask, dims):
        result = function(_filled(name, values, mask, *args), dims, bool(keepdim))
    elif name == "sum":  # of complex numbers that became real
        result = tessera._masked_sum(values, mask, dims, bool(keepdim))
    elif name == "prod":
        result = tessera._masked_reduce(values, mask, name, dims[-1:], bool(keepdim))
        result = function(result, dims[:-1], bool(keepdim)) if dims[:-1] else result
    else:
        result = tessera._masked_reduce(values, mask, name, dims, bool(keepdim), *map(float, args))
    return _in_layout(result, layout, mask, dims, bool(keepdim))


def _extended(name, dtype, input):
    """Sums and products of integers are int64."""
    return tessera.int64 if dtype is None and not _is_inexact(name, input) else dtype


def _is_inexact(name, input):
    if not isinstance(input, tessera.Tensor):
        raise TypeError(f"{name}(): expected a tensor or a masked tensor, got {type(input).__name__}")
    return input.dtype.is_floating_point or input.dtype.is_complex


@_described("The sum", "0")
def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce(
        "sum",
        input,
        dim,
        keepdim,
        _extended("sum", dtype, input),
        mask,
        lambda x, dims, keep: x.sum(dims, keepdim=keep),
    )


def _product(values, dims, keepdim):
    for dim in reversed(dims):
        values = values.prod(dim, keepdim=keepdim) if values.dim() else values.prod()
    return values


@_described("The product", "1")
def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce("prod", input, dim, keepdim, _extended("prod", dtype, input), mask, _product)


@_described("The largest", "the lowest number of the dtype")
def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce("amax", input, dim, keepdim, dtype, mask, lambda x, dims, keep: x.amax(dims, keepdim=keep))


@_described("The smallest", "the highest number of the dtype")
def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce("amin", input, dim, keepdim, dtype, mask, lambda x, dims, keep: x.amin(dims, keepdim=keep))


@_described("The place of the largest, in all of the input without `dim`, as a number of the input's dtype,", None)
def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    values, mask, _ = _checked("argmax", input, mask)
    values = values if dtype is None else values.to(dtype)
    return _filled("argmax", values, mask).argmax(dim, bool(keepdim)).to(values.dtype)


@_described("The place of the smallest, in all of the input without `dim`, as a number of the input's dtype,", None)
def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    values, mask, _ = _checked("argmin", input, mask)
    values = values if dtype is None else values.to(dtype)
    return _filled("argmin", values, mask).argmin(dim, bool(keepdim)).to(values.dtype)


def _count(values, mask, dims, keepdim):
    if mask is None:
        mask = tessera.ones(values.shape, dtype=tessera.bool, device=values.device)
    return mask.sum(dims, keepdim=keepdim)


@_described("The mean", "NaN")
def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    wanted = input.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {wanted}"
        )
    values, mask, layout = _checked("mean", input, mask)
    dims = _canonical_dim(dim, values.dim())
    values = values.to(wanted)
    if mask is None:
        return values.mean(dims, keepdim=bool(keepdim))
    if _in_one_pass("mean", values, mask, dims):
        result = tessera._masked_sum(values, mask, dims, bool(keepdim), True)
        return _in_layout(result, layout, mask, dims, bool(keepdim))
    total = _filled("sum", values, mask).sum(dims, keepdim=bool(keepdim))
    return _in_layout(total / _count(values, mask, dims, bool(keepdim)), layout, mask, dims, bool(keepdim))


@_described("The lower of the medians", "NaN")
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    values, mask, _ = _checked("median", input, mask)
    values = values if dtype is None else values.to(dtype)
    dim = _canonical_dim(dim, values.dim())[0]
    if mask is None:
        return values.median(dim, keepdim=keepdim).values
    if values.is_floating_point():
        return _filled("median", values, mask).nanmedian(dim, keepdim=keepdim).values
    if not _any(mask, (dim,), False).all():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    exact = _where(mask, values.to(tessera.float64), tessera.tensor(float("nan"), dtype=tessera.float64))
    return exact.nanmedian(dim, keepdim=keepdim).values.to(values.dtype)


@_described("The logarithm of the sum of exponentials", "-inf")
def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce(
        "logsumexp",
        input,
        dim,
        keepdim,
        dtype,
        mask,
        lambda x, dims, keep: tessera.logsumexp(x, dims, keepdim=keep).to(x.dtype),
    )


@_described("The vector norm of order `ord`", "0 (inf for the order -inf)")
def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _reduce(
        "norm",
        input,
        dim,
        keepdim,
        dtype,
        mask,
        lambda x, dims, keep: tessera.linalg.vector_norm(x, ord, dims, keepdim=keep),
        ord,
    )


def _deviation(name, input, dim, unbiased, correction, keepdim, dtype, mask, take_root):
    assert unbiased is None or correction is None, "Only one of unbiased and correction may be given"
    values, mask, _ = _checked(name, input, mask)
    dims = _canonical_dim(dim, values.dim())
    if dtype is None and not (values.is_floating_point() or values.is_complex()):
        dtype = tessera.float32
    values = values if dtype is None else values.to(dtype)
    lost = correction if correction is not None else float(unbiased is None or unbiased)
    if _in_one_pass("var", values, mask, dims):
        result = tessera._masked_reduce(values, mask, "var", dims, bool(keepdim), float(lost))
        return tessera.sqrt(result) if take_root else result
    count = _count(values, mask, dims, True)
    centred = values - _filled("sum", values, mask).sum(dims, keepdim=True) / count
    squares = centred * centred.conj()
    total = _filled("sum", squares, mask).sum(dims, keepdim=bool(keepdim))
    if not keepdim:
        count = count.reshape(total.shape)
    result = (total / (count - lost).clamp(min=0)).to(values.dtype)
    return tessera.sqrt(result) if take_root else result


@_described("The variance (with n - 1, or n - `correction`, where `unbiased` is not False)", "NaN")
def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    return _deviation("var", input, dim, unbiased, correction, keepdim, dtype, mask, False)


@_described("The standard deviation (with n - 1, or n - `correction`, where `unbiased` is not False)", "NaN")
def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    return _deviation("std", input, dim, unbiased, correction, keepdim, dtype, mask, True)


def _along(name, input, dim, dtype, mask, function):
    values, mask, _ = _checked(name, input, mask)
    dim = _canonical_dim(dim, values.dim())[0]
    values = values if dtype is None else values.to(dtype)
    if name.endswith(("softmax", "softmin")) and values.dim() and _in_one_pass(name, values, mask, (dim,)):
        return tessera._softmax_under(-values if name == "softmin" else values, mask, dim, name == "log_softmax")
    return function(_filled(name, values, mask), dim)


@_described("The running sum along `dim`", None)
def cumsum(input, dim, *, dtype=None, mask=None):
    return _along("cumsum", input, dim, dtype, mask, lambda x, d: x.cumsum(d, dtype=x.dtype))


@_described("The running product along `dim`", None)
def cumprod(input, dim, *, dtype=None, mask=None):
    return _along("cumprod", input, dim, dtype, mask, lambda x, d: x.cumprod(d, dtype=x.dtype))


@_described("The softmax along `dim`", "NaN")
def softmax(input, dim, *, dtype=None, mask=None):
    return _along("softmax", input, dim, dtype, mask, lambda x, d: x.softmax(d))


@_described("The logarithm of the softmax along `dim`", "NaN")
def log_softmax(input, dim, *, dtype=None, mask=None):
    return _along("log_softmax", input, dim, dtype, mask, lambda x, d: x.log_softmax(d))


@_described("The softmax of the negative along `dim`", "NaN")
def softmin(input, dim, *, dtype=None, mask=None):
    return _along("softmin", input, dim, dtype, mask, lambda x, d: (-x).softmax(d))


@_described("The input divided by its norm of order `ord` along `dim` (by `eps` where that is larger)", None)
def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    values, mask, _ = _checked("normalize", input, mask)
    values = values if dtype is None else values.to(dtype)
    length = norm(values, ord, dim, keepdim=True, mask=mask)
    length = length.clamp(min=eps)
    if _in_one_pass("normalize", values, mask, range(values.dim())):
        return tessera._div_under(values, length, mask)
    return _filled("normalize", values, mask) / length


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), where an element that a mask leaves out is -inf.

    Args: tensors that broadcast, the dtype of the result, and a mask for each of them.

    Raises: IndexError or RuntimeError for a mask that does not broadcast to its tensor.
    """
    (a, a_mask, _), (b, b_mask, _) = _checked("logaddexp", input, input_mask), _checked("logaddexp", other, other_mask)
    result = tessera.logaddexp(_filled("logaddexp", a, a_mask), _filled("logaddexp", b, b_mask))
    return result if dtype is None else result.to(dtype)
