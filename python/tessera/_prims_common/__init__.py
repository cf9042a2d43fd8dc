"""What operators have in common, as functions of shapes, strides, dtypes and dimensions."""

import enum
import functools
import operator

import tessera

__all__ = [
    "DimsSequenceType", "DimsType", "ELEMENTWISE_TYPE_PROMOTION_KIND", "IntLike", "Number", "NumberType",
    "RETURN_TYPE", "ShapeType", "StrideType", "TensorLike", "TensorLikeType", "canonicalize_dim", "canonicalize_dims",
    "check_same_device", "check_same_dtype", "check_same_shape", "compute_elementwise_output_strides",
    "compute_reduction_output_shape", "corresponding_complex_dtype", "corresponding_real_dtype", "dtype_to_type",
    "elementwise_dtypes", "extract_shape", "get_computation_dtype", "get_higher_dtype", "is_boolean_dtype",
    "is_channels_last_contiguous", "is_channels_last_contiguous_2d", "is_channels_last_contiguous_3d",
    "is_complex_dtype", "is_contiguous", "is_contiguous_for_memory_format",
    "is_contiguous_for_memory_format_or_false", "is_contiguous_or_false", "is_expandable_to", "is_float_dtype",
    "is_integer_dtype", "is_low_precision_dtype", "is_non_overlapping_and_dense",
    "is_non_overlapping_and_dense_or_false", "is_same_shape", "make_channels_last_1d_strides_for",
    "make_channels_last_2d_strides_for", "make_channels_last_3d_strides_for", "make_channels_last_strides_for",
    "make_contiguous_strides_for", "number_type", "reduction_dims", "same_shape", "suggest_memory_format",
    "type_to_dtype", "validate_dim_length", "validate_idx", "validate_shape", "validate_strides",
]  # fmt: skip

ShapeType = tessera.Size | list[int] | tuple[int, ...]
StrideType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
DimsSequenceType = list[int] | tuple[int, ...]
Number = bool | int | float | complex
NumberType = type[bool] | type[int] | type[float] | type[complex]
IntLike = int
TensorLike = tessera.Tensor
TensorLikeType = tessera.Tensor


class RETURN_TYPE(enum.Enum):
    """What an operator returns: a new tensor, a view, its argument, nothing."""

    NEW = 0
    VIEW = 1
    INPLACE = 2
    NONE = 3


class ELEMENTWISE_TYPE_PROMOTION_KIND(enum.Enum):
    """How the dtype of an elementwise operator's result follows from its arguments'."""

    DEFAULT = 0
    NO_OPMATH = 1
    INT_TO_FLOAT = 2
    ALWAYS_BOOL = 3
    COMPLEX_TO_FLOAT = 4
    BOOL_TO_LONG = 5


# --- dtypes

_INTEGERS = (
    tessera.uint8, tessera.int8, tessera.int16, tessera.int32, tessera.int64, tessera.uint16, tessera.uint32,
    tessera.uint64,
)  # fmt: skip
_REAL_OF = {
    tessera.complex32: tessera.float16,
    tessera.complex64: tessera.float32,
    tessera.complex128: tessera.float64,
}
_COMPLEX_OF = {real: complex_ for complex_, real in _REAL_OF.items()} | {tessera.bfloat16: tessera.complex64}
_WIDER = {tessera.float16: tessera.float32, tessera.bfloat16: tessera.float32, tessera.complex32: tessera.complex64}
_KINDS = (bool, int, float, complex)


def is_boolean_dtype(dtype):
    """True for bool."""
    return dtype is tessera.bool


def is_integer_dtype(dtype):
    """True for the integer dtypes; bool is none."""
    return dtype in _INTEGERS


def is_float_dtype(dtype):
    """True for the real floating dtypes."""
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    """True for the complex dtypes."""
    return dtype.is_complex


def is_low_precision_dtype(dtype):
    """True for the floating dtypes of less than four bytes a number."""
    return dtype in _WIDER or (dtype.is_floating_point and dtype.itemsize < 4)


def corresponding_real_dtype(dtype):
    """The dtype of a complex dtype's parts. Raises: KeyError for others."""
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype):
    """The complex dtype with parts of a real dtype; complex64 for bfloat16. Raises: KeyError for others."""
    return _COMPLEX_OF[dtype]


def get_computation_dtype(dtype):
    """What numbers of this dtype are computed in: float32 for half precision, complex64 for complex32; else itself."""
    return _WIDER.get(dtype, dtype)


def dtype_to_type(dtype):
    """bool, int, float or complex: the kind of Python number that a dtype holds."""
    if is_boolean_dtype(dtype):
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(typ):
    """The dtype that Python numbers of a type become. Raises: ValueError for other types."""
    if typ not in _KINDS:
        raise ValueError(f"type_to_dtype: expected bool, int, float or complex, got {typ!r}")
    if typ is complex:
        return corresponding_complex_dtype(tessera.get_default_dtype())
    return {bool: tessera.bool, int: tessera.int64, float: tessera.get_default_dtype()}[typ]


def number_type(x):
    """bool, int, float or complex: what kind of number it is. Raises: ValueError for others."""
    for kind in _KINDS:
        if isinstance(x, kind):
            return kind
    raise ValueError(f"expected a number, got {type(x).__name__}")


def get_higher_dtype(a, b):
    """The dtype that both can be converted to: of dtypes, tensors or numbers; None stands for anything."""
    a, b = _dtype_of(a), _dtype_of(b)
    if a is None or b is None:
        return b if a is None else a
    return tessera.promote_types(a, b)


def _dtype_of(x):
    if isinstance(x, tessera.Tensor):
        return x.dtype
    return x if x is None or isinstance(x, tessera.dtype) else type_to_dtype(number_type(x))


def elementwise_dtypes(*args, type_promotion_kind):
    """(what is computed in, the result's dtype) of an elementwise operator with these tensors and numbers (or None).

    Raises: RuntimeError without any tensor or number.
    """
    given = [a for a in args if a is not None]
    if not given:
        raise RuntimeError("elementwise_dtypes: expected at least one tensor or number")
    result = _promoted(given)
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND
    if type_promotion_kind is kind.INT_TO_FLOAT and not (result.is_floating_point or result.is_complex):
        result = tessera.get_default_dtype()
    if type_promotion_kind is kind.BOOL_TO_LONG and result is tessera.bool:
        result = tessera.int64
    computed = result if type_promotion_kind is kind.NO_OPMATH else get_computation_dtype(result)
    if type_promotion_kind is kind.ALWAYS_BOOL:
        return computed, tessera.bool
    if type_promotion_kind is kind.COMPLEX_TO_FLOAT and result.is_complex:
        return computed, corresponding_real_dtype(result)
    return computed, result


def _promoted(given):
    """Tensors with dimensions decide, then those without, then numbers, where each is of a higher kind."""
    groups = [], [], []
    for a in given:
        groups[2 if not isinstance(a, tessera.Tensor) else 0 if a.dim() else 1].append(_dtype_of(a))
    chosen = None
    for group in groups:
        if not group:
            continue
        together = functools.reduce(tessera.promote_types, group)
        if chosen is None or _KINDS.index(dtype_to_type(together)) > _KINDS.index(dtype_to_type(chosen)):
            is_weak = chosen is not None and dtype_to_type(together) is complex and chosen.is_floating_point
            chosen = corresponding_complex_dtype(chosen) if is_weak and group is groups[2] else together
    return chosen


# --- dimensions and shapes


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """A dimension counted from the front. `wrap_scalar`: a tensor without dimensions has one, too.

    Raises: IndexError outside of [-rank, rank), RuntimeError for a negative rank.
    """
    if rank < 0:
        raise RuntimeError(f"Rank cannot be negative but got {rank}")
    if rank == 0 and wrap_scalar:
        rank = 1
    if rank == 0:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx + rank if idx < 0 else idx


def canonicalize_dims(rank, indices, wrap_scalar=True):
    """canonicalize_dim of one dimension, or a tuple for several."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def reduction_dims(shape, dims):
    """The dimensions of a reduction, from the front; all for None. Raises: RuntimeError where one is named twice."""
    if dims is None:
        return tuple(range(len(shape)))
    dims = tuple(canonicalize_dim(len(shape), i) for i in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError("duplicate value in the list of dims")
    return dims


def compute_reduction_output_shape(shape, dimensions):
    """The shape without these dimensions."""
    gone = {canonicalize_dim(len(shape), i) for i in dimensions}
    return tuple(n for i, n in enumerate(shape) if i not in gone)


def validate_dim_length(length):
    """Raises: RuntimeError for a negative size."""
    if length < 0:
        raise RuntimeError(f"a size cannot be negative, got {length}")


def validate_shape(shape):
    """Raises: RuntimeError for a negative size."""
    for length in shape:
        validate_dim_length(length)


def validate_strides(strides):
    """Raises: RuntimeError for a negative stride."""
    for stride in strides:
        if stride < 0:
            raise RuntimeError(f"a stride cannot be negative, got {stride}")


def validate_idx(rank, idx):
    """Raises: IndexError unless 0 <= idx < rank (one dimension at least)."""
    if not 0 <= idx < max(rank, 1):
        raise IndexError(f"expected a dimension in [0, {max(rank, 1)}), got {idx}")


def is_same_shape(a, b):
    """True if two shapes are equal."""
    return tuple(a) == tuple(b)


same_shape = is_same_shape


def is_expandable_to(shape, desired):
    """True if a tensor of `shape` can be expanded to `desired`."""
    if len(shape) > len(desired):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(desired)))


def extract_shape(*args, allow_cpu_scalar_tensors):
    """The shape of the tensors among the arguments, or None where they differ or there are none.

    `allow_cpu_scalar_tensors`: tensors of the CPU without dimensions do not count.
    """
    shapes, scalar = [], None
    for a in args:
        if isinstance(a, tessera.Tensor):
            if allow_cpu_scalar_tensors and a.dim() == 0 and a.device.type == "cpu":
                scalar = a.shape
            else:
                shapes.append(a.shape)
    if not shapes:
        return scalar
    return shapes[0] if all(s == shapes[0] for s in shapes) else None


def _tensors(args, skip_scalars):
    return [
        a for a in args
        if isinstance(a, tessera.Tensor) and not (skip_scalars and a.dim() == 0 and a.device.type == "cpu")
    ]  # fmt: skip


def check_same_shape(*args, allow_cpu_scalar_tensors):
    """Raises: RuntimeError if the tensors among the arguments have different shapes."""
    shapes = {tuple(t.shape) for t in _tensors(args, allow_cpu_scalar_tensors)}
    if len(shapes) > 1:
        raise RuntimeError(f"expected tensors of one shape, got {sorted(shapes)}")


def check_same_device(*args, allow_cpu_scalar_tensors):
    """Raises: RuntimeError if the tensors among the arguments are on different devices."""
    devices = {str(t.device) for t in _tensors(args, allow_cpu_scalar_tensors)}
    if len(devices) > 1:
        raise RuntimeError(f"expected tensors on one device, got {sorted(devices)}")


def check_same_dtype(*args):
    """Raises: RuntimeError if the tensors among the arguments have different dtypes, or numbers are of another kind."""
    dtypes = {t.dtype for t in _tensors(args, False)}
    kinds = {dtype_to_type(d) for d in dtypes} | {number_type(a) for a in args if isinstance(a, _KINDS)}
    if len(dtypes) > 1 or len(kinds) > 1:
        raise RuntimeError(f"expected arguments of one dtype, got {sorted(map(str, dtypes)) or kinds}")


# --- strides


def make_contiguous_strides_for(shape, row_major=True):
    """The strides of a contiguous tensor; `row_major` False: its last two dimensions are stored by columns."""
    validate_shape(shape)
    strides, count = [], 1
    for length in reversed(shape):
        strides.append(count)
        count = count * max(length, 1)
    strides.reverse()
    if row_major or len(shape) < 2:
        return tuple(strides)
    return (*strides[:-2], 1, max(shape[-2], 1))


def _channels_last(shape, ndim):
    if len(shape) != ndim + 2:
        raise RuntimeError(f"expected a shape of {ndim + 2} dimensions, got {tuple(shape)}")
    strides, count = [0] * len(shape), 1
    for i in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[i] = count
        count = count * max(shape[i], 1)
    return tuple(strides)


def make_channels_last_1d_strides_for(shape):
    """The strides of a (N, C, L) tensor whose channels lie next to each other. Raises: RuntimeError for other ranks."""
    return _channels_last(shape, 1)


def make_channels_last_2d_strides_for(shape):
    """The same of a (N, C, H, W) tensor."""
    return _channels_last(shape, 2)


def make_channels_last_3d_strides_for(shape):
    """The same of a (N, C, D, H, W) tensor."""
    return _channels_last(shape, 3)


def make_channels_last_strides_for(shape):
    """The same of a tensor of 3, 4 or 5 dimensions. Raises: RuntimeError for other ranks."""
    if not 3 <= len(shape) <= 5:
        raise RuntimeError(f"no channels last format exists for tensors of {len(shape)} dimensions")
    return _channels_last(shape, len(shape) - 2)


def is_contiguous_for_memory_format(a, *, memory_format):
    """True if a tensor lies in memory as the format says. Raises: RuntimeError for preserve_format."""
    return a.is_contiguous(memory_format=memory_format)


is_contiguous_for_memory_format_or_false = is_contiguous_for_memory_format


def is_contiguous(a):
    """True for a contiguous tensor."""
    return a.is_contiguous()


is_contiguous_or_false = is_contiguous


def is_channels_last_contiguous_2d(a):
    """True for a (N, C, H, W) tensor whose channels lie next to each other."""
    return a.dim() == 4 and a.is_contiguous(memory_format=tessera.channels_last)


def is_channels_last_contiguous_3d(a):
    """True for a (N, C, D, H, W) tensor whose channels lie next to each other."""
    return a.dim() == 5 and a.is_contiguous(memory_format=tessera.channels_last_3d)


def is_channels_last_contiguous(a):
    """True if the channels of a tensor of 4 or 5 dimensions lie next to each other."""
    return is_channels_last_contiguous_2d(a) or is_channels_last_contiguous_3d(a)


def suggest_memory_format(x):
    """The format of a tensor's memory: channels_last, channels_last_3d, or contiguous_format for all others."""
    if x.layout is tessera.strided and x.dim() in (4, 5) and _steps_like_channels_last(x.shape, x.stride()):
        return tessera.channels_last if x.dim() == 4 else tessera.channels_last_3d
    return tessera.contiguous_format


def _steps_like_channels_last(shape, strides):
    """Channels come first in memory, then the last dimension and so on to the first; where both formats fit, no."""
    if strides[1] == 0:
        return False
    least = 0
    for i in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[i] == 0 or strides[i] < least:
            return False
        if i == 0 and least == strides[1]:  # (N, 1, 1 ...): as well contiguous
            return False
        least = strides[i] * max(shape[i], 1)
    return True


def is_non_overlapping_and_dense(a):
    """True if a tensor's elements fill a piece of memory, in whatever order of dimensions."""
    if a.layout is not tessera.strided:
        return False
    wanted = 1
    for stride, length in sorted((s, n) for s, n in zip(a.stride(), a.shape) if n != 1):
        if length == 0:
            return True
        if stride != wanted:
            return False
        wanted = wanted * length
    return True


is_non_overlapping_and_dense_or_false = is_non_overlapping_and_dense


def compute_elementwise_output_strides(*tensors):
    """The strides of an elementwise operator's result. Raises: RuntimeError without tensors or for different shapes."""
    given = [t for t in tensors if isinstance(t, tessera.Tensor)]
    if not given:
        raise RuntimeError("compute_elementwise_output_strides: expected at least one tensor")
    check_same_shape(*given, allow_cpu_scalar_tensors=True)
    metas = [tessera.empty_strided(t.shape, t.stride(), device="meta") for t in given]
    return functools.reduce(operator.add, metas, metas[0]).stride()
