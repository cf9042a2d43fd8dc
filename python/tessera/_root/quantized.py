"""Quantized tensors: integers with a scale and a zero point, of all elements or of each slice along one dim.

A QuantizedTensor is a tensor of a quantized dtype, whose memory holds the integers, with its parameters beside it.
Functions come to it above autograd: those that move elements work on the integers, some on the numbers that these
stand for; all others are refused.
"""

import functools
import typing

import tessera
from tessera import _C

_INTEGERS = {
    tessera.quint8: tessera.uint8,
    tessera.qint8: tessera.int8,
    tessera.qint32: tessera.int32,
    tessera.quint4x2: tessera.uint8,
    tessera.quint2x4: tessera.uint8,
}
_HIGHEST = {tessera.quint4x2: 15, tessera.quint2x4: 3}
_TYPE_NAMES = {
    tessera.quint8: "QUInt8Tensor",
    tessera.qint8: "QInt8Tensor",
    tessera.qint32: "QInt32Tensor",
    tessera.quint4x2: "QUInt4x2Tensor",
    tessera.quint2x4: "QUInt2x4Tensor",
}
KERNELS: dict = {}  # name of an operator of quantized tensors -> function, once programs asked for them
_DYNAMIC_RANGE = {tessera.quint8: (0, 255), tessera.qint8: (-128, 127)}


class qscheme:
    """How the integers of a quantized tensor stand for numbers, e.g. torch.per_tensor_affine."""

    __slots__ = ("_name",)
    _known: dict = {}

    def __new__(cls, name):
        if name not in cls._known:
            raise TypeError(f"there is no quantization scheme {name!r}; expected one of {', '.join(cls._known)}")
        return cls._known[name]

    def __repr__(self):
        return f"{str(tessera.quint8).partition('.')[0]}.{self._name}"

    def __reduce__(self):
        return self._name  # a name of the root


def _scheme(name):
    made = object.__new__(qscheme)
    made._name = name
    return qscheme._known.setdefault(name, made)


qscheme.__module__ = "tessera"
per_tensor_affine = _scheme("per_tensor_affine")
per_channel_affine = _scheme("per_channel_affine")
per_tensor_symmetric = _scheme("per_tensor_symmetric")
per_channel_symmetric = _scheme("per_channel_symmetric")
per_channel_affine_float_qparams = _scheme("per_channel_affine_float_qparams")


class _Quantizer(typing.NamedTuple):
    """The number of an integer q is (q - zero_point) * scale; with an axis both have an element for each index."""

    scale: typing.Any
    zero_point: typing.Any
    axis: typing.Any = None

    def spread(self, to):
        """scale and zero point as what broadcasts to the tensor `to`; the zero point in float32's precision."""
        if self.axis is None:
            return self.scale, self.zero_point
        shape = [-1 if i == self.axis else 1 for i in range(to.dim())]
        return self.scale.float().reshape(shape).to(to.device), self.zero_point.reshape(shape).to(to.device)

    def numbers(self, integers):
        """The numbers, float32, of integers."""
        if self._served(integers):
            return _C._dequantize_affine(integers, *self._lists())
        scale, zero_point = self.spread(integers)
        return (integers.to(tessera.float32) - zero_point) * scale

    def integers(self, numbers, dtype):
        """The nearest integers that a quantized dtype has."""
        if self._served(numbers) and numbers.dtype == tessera.float32:
            return _C._quantize_affine(numbers.detach(), *self._lists(), *_range_of(dtype), _INTEGERS[dtype])
        scale, zero_point = self.spread(numbers)
        if self.floats():
            return (numbers.detach() * (1.0 / scale) + zero_point).round().clamp(*_range_of(dtype)).to(_INTEGERS[dtype])
        inverse = 1.0 / scale if self.axis is not None else _single(1.0 / _single(scale))
        levels = (numbers.detach() * inverse).round().to(tessera.float64) + zero_point
        return levels.clamp(*_range_of(dtype)).to(_INTEGERS[dtype])

    def _served(self, tensor):
        """Whether the CPU's kernels do it: plain tensors there, with zero points that are integers."""
        return tensor.is_cpu and type(tensor) is tessera.Tensor and not self.floats()

    def _lists(self):
        if self.axis is None:
            return [self.scale], [self.zero_point], -1
        return self.scale.tolist(), self.zero_point.tolist(), self.axis

    def floats(self):
        """Whether zero points are floats, which need not stand at an integer."""
        return self.axis is not None and self.zero_point.dtype == tessera.float32

    def same(self, other):
        """Whether both give the same numbers."""
        if (self.axis is None) != (other.axis is None):
            return False
        if self.axis is None:
            return self.scale == other.scale and self.zero_point == other.zero_point
        return (
            self.axis == other.axis
            and tessera.equal(self.scale, other.scale)
            and tessera.equal(self.zero_point, other.zero_point)
        )


def _single(x):
    """A number rounded to float32."""
    return float(tessera.tensor(x, dtype=tessera.float32))


def _range_of(dtype):
    info = tessera.iinfo(_INTEGERS[dtype])
    return info.min, _HIGHEST.get(dtype, info.max)


def _wrapped(integers, dtype, quantizer):
    """A quantized tensor in the memory of integers."""
    plain = tessera.empty(0, dtype=dtype, device=integers.device)
    plain.set_(integers.untyped_storage(), integers.storage_offset(), integers.size(), integers.stride())
    made = plain.as_subclass(QuantizedTensor)
    made._quantizer = quantizer
    return made


class QuantizedTensor(tessera.Tensor):
    """A tensor of integers that stand for numbers; torch.quantize_per_tensor and quantize_per_channel make them."""

    _quantizer: _Quantizer

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if _is_tracing() and _recording() and getattr(func, "__name__", "") not in ("__get__", "__set__"):
            return _plainly(func, args, kwargs or {})
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__":
            asked = getattr(getattr(func, "__self__", None), "__name__", "")
            if asked in _MOVING_ATTRIBUTES:
                return _moved(lambda t: getattr(t, asked), args, kwargs)
            return _plainly(func, args, kwargs)
        if name in _PLAIN or name == "__set__":
            return _plainly(func, args, kwargs)
        if name in _MOVING:
            return _moved(func, args, kwargs)
        if name in _BY_NUMBERS:
            return _by_numbers(_WHOLE_OPERATORS.get(name, func), args, kwargs)
        if name in _OF_NUMBERS:
            return func(*_mapped(args, _dequantized), **_mapped(kwargs, _dequantized))
        if name in _SERVED:
            return _SERVED[name](*args, **kwargs)
        if isinstance(func, tessera._ops.OpOverload):
            return cls.__torch_dispatch__(func, types, args, kwargs)
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the 'QuantizedCPU' backend: quantized tensors are moved, "
            "copied, compared, pooled and dequantized; call dequantize() for arithmetic"
        )

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """An operator that C++ called, as programs do."""
        name = func.name()
        if name in KERNELS:
            return KERNELS[name](*args, **(kwargs or {}))
        short = name.partition("::")[2].partition(".")[0]
        if short in _PLAIN:
            return func._redispatch(_C._key_bits("CPU"), *args, **(kwargs or {}))
        return cls.__torch_function__(func.overloadpacket, types, args, kwargs)

    def _ints(self):
        saved = _C._set_torch_function_subclass_disabled(True)
        try:
            plain = tessera.empty(0, dtype=_INTEGERS[self.dtype], device=self.device)
            return plain.set_(self.untyped_storage(), self.storage_offset(), self.size(), self.stride())
        finally:
            _C._set_torch_function_subclass_disabled(saved)

    def int_repr(self):
        """A copy of the integers: uint8, int8 or int32."""
        if _recording():
            return _operator("int_repr")(self)
        return self._ints().clone()

    def dequantize(self):
        """The numbers, as a float32 tensor."""
        if _is_tracing() and _recording():
            return _operator("dequantize").self(self)
        return self._quantizer.numbers(self._ints())

    def qscheme(self):
        """How the integers stand for numbers."""
        if self._quantizer.floats():
            return per_channel_affine_float_qparams
        return per_tensor_affine if self._quantizer.axis is None else per_channel_affine

    def _of_scheme(self, name, channels):
        if (self._quantizer.axis is not None) != channels:
            wanted = "per-channel" if channels else "per-tensor"
            raise RuntimeError(f"{name}: expected a tensor with {wanted} quantization, but got {self.qscheme()}")
        return self._quantizer

    def q_scale(self):
        """The scale. RuntimeError if there is one for each channel."""
        return self._of_scheme("q_scale", False).scale

    def q_zero_point(self):
        """The integer that stands for 0. RuntimeError if there is one for each channel."""
        return self._of_scheme("q_zero_point", False).zero_point

    def q_per_channel_scales(self):
        """The scales of the channels, float64. RuntimeError if there is one for all."""
        return self._of_scheme("q_per_channel_scales", True).scale

    def q_per_channel_zero_points(self):
        """The integers that stand for 0, int64. RuntimeError if there is one for all."""
        return self._of_scheme("q_per_channel_zero_points", True).zero_point

    def q_per_channel_axis(self):
        """The dim of the channels. RuntimeError if all have one scale."""
        return self._of_scheme("q_per_channel_axis", True).axis

    def __reduce_ex__(self, protocol):
        return tessera._utils._reduce_tensor(self)

    def __deepcopy__(self, memo):
        made = _wrapped(self._ints().clone(), self.dtype, self._quantizer)
        memo[id(self)] = made
        return made

    def __repr__(self, *, tensor_contents=None):
        saved = _C._set_torch_function_subclass_disabled(True)
        try:
            return tessera._tensor_str._str(self, tensor_contents=tensor_contents)
        finally:
            _C._set_torch_function_subclass_disabled(saved)


# ---- what functions do ----

_PLAIN = frozenset(
    "size dim ndimension numel nelement stride storage_offset element_size is_contiguous untyped_storage storage "
    "_typed_storage storage_type data_ptr get_device is_floating_point is_complex is_signed __len__ is_shared "
    "share_memory_ requires_grad_ __hash__ is_same_size is_set_to is_pinned __reduce_ex__ set_ is_tensor typename "
    "_is_view is_storage as_subclass __format__ names has_names is_conj is_neg is_inference dim_order _make_subclass "
    "retain_grad".split()
)
_MOVING_ATTRIBUTES = frozenset("T mT H mH data".split())
_MOVING = frozenset(
    "view reshape view_as reshape_as t transpose swapaxes swapdims permute movedim moveaxis squeeze unsqueeze flatten "
    "unflatten expand expand_as select slice narrow __getitem__ index_select clone contiguous detach alias chunk split "
    "split_with_sizes tensor_split unbind repeat tile flip roll gather take_along_dim masked_select as_strided unfold "
    "diagonal ravel cpu pin_memory __iter__ max_pool1d max_pool2d max_pool3d atleast_1d atleast_2d atleast_3d "
    "_slice pixel_shuffle pixel_unshuffle channel_shuffle rot90 repeat_interleave".split()
)
# Operators that composite functions are made of, and which come from C++ alone.
_MOVING |= frozenset("max_pool2d_with_indices max_pool3d_with_indices".split())
_WHOLE = frozenset("clone contiguous detach alias cpu pin_memory".split())  # each channel stays where it is
_TURNING = frozenset("t transpose swapaxes swapdims permute movedim moveaxis unsqueeze T mT".split())
_BY_NUMBERS = frozenset(
    "relu6 hardtanh hardtanh_ clamp clip clamp_min clamp_max leaky_relu threshold elu hardswish avg_pool1d avg_pool2d "
    "avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d interpolate mean max min sort topk "
    "pad upsample".split()
)
_BY_NUMBERS |= frozenset(
    "_clamp_scalar _adaptive_avg_pool2d _adaptive_avg_pool3d constant_pad_nd reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d".split()
)
# What programs call of composites that choose by size how they round.
_WHOLE_OPERATORS = {
    "_adaptive_avg_pool2d": _C._nn.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d": _C._nn.adaptive_avg_pool3d,
}
_OF_NUMBERS = frozenset(
    "eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ item tolist allclose isclose argmax argmin isnan "
    "isinf isfinite assert_close".split()
)


_TRACER, _is_tracing = _C._key_bits("Tracer"), _C._jit.is_tracing


def _recording():
    """Whether a trace records operators: then those of quantized tensors are called, and not what they are made of."""
    if not _is_tracing() or _C._tls_keys()[1] & _TRACER:
        return False
    tessera.ao.nn._quantized_scripts.start()
    return True


def _operator(name):
    """An operator of quantized tensors, which there are once _recording() asked for them."""
    return getattr(tessera.ops.aten, name)


def _plainly(func, args, kwargs):
    saved = _C._set_torch_function_subclass_disabled(True)
    try:
        return func(*args, **kwargs)
    finally:
        _C._set_torch_function_subclass_disabled(saved)


def _mapped(value, function):
    """`function` of each quantized tensor among arguments."""
    if isinstance(value, QuantizedTensor):
        return function(value)
    if isinstance(value, (tuple, list)) and not isinstance(value, tessera.Size):
        return type(value)(_mapped(v, function) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, function) for k, v in value.items()}
    return value


def _first(args):
    for value in args:
        found = value if isinstance(value, QuantizedTensor) else None
        if found is None and isinstance(value, (tuple, list)):
            found = _first(value)
        if found is not None:
            return found
    return None


def _rewrapped(result, integer, make):
    """Results in the integers' dtype as quantized tensors."""
    if isinstance(result, tessera.Tensor):
        return make(result) if result.dtype == integer else result
    if isinstance(result, (tuple, list)):
        return type(result)(_rewrapped(r, integer, make) for r in result)
    return result


def _moved(func, args, kwargs):
    name = getattr(func, "__name__", "")
    first = _first((*args, *kwargs.values()))
    quantizer = first._quantizer
    if quantizer.axis is not None and name not in _WHOLE:
        if name not in _TURNING and name != "<lambda>":
            raise NotImplementedError(
                f"'{name}' of a tensor with per-channel quantization; call dequantize() or int_repr() first"
            )
        quantizer = quantizer._replace(axis=_axis_after(func, args, kwargs, quantizer.axis))
    result = func(*_mapped(args, QuantizedTensor._ints), **_mapped(kwargs, QuantizedTensor._ints))
    return _rewrapped(result, _INTEGERS[first.dtype], lambda t: _wrapped(t, first.dtype, quantizer))


def _axis_after(func, args, kwargs, axis):
    """Where a dim lies after a function that turns dims: strides tell."""

    def marked(t):
        return tessera.empty_strided([1] * t.dim(), [1 + i for i in range(t.dim())], device="meta")

    return func(*_mapped(args, marked), **_mapped(kwargs, marked)).stride().index(1 + axis)


def _dequantized(t):
    return t.dequantize()


def _by_numbers(func, args, kwargs):
    """The function of the numbers, with the parameters of its first argument."""
    first = _first((*args, *kwargs.values()))
    result = func(*_mapped(args, _dequantized), **_mapped(kwargs, _dequantized))
    make = lambda t: _wrapped(first._quantizer.integers(t, first.dtype), first.dtype, first._quantizer)  # noqa: E731
    return _rewrapped(result, tessera.float32, make)


def _equal(a, b):
    if not isinstance(a, QuantizedTensor) or not isinstance(b, QuantizedTensor):
        raise RuntimeError("equal: expected both or none of the tensors to be quantized")
    return a.dtype == b.dtype and a._quantizer.same(b._quantizer) and tessera.equal(a._ints(), b._ints())


def _joined(func):
    def joined(tensors, dim=0, *, out=None, axis=None):
        if out is not None:
            raise NotImplementedError(f"{func.__name__} of quantized tensors has no out=")
        first = _first(tensors)
        numbers = [t.dequantize() for t in tensors]
        whole = func(numbers, dim if axis is None else axis)
        return _wrapped(first._of_scheme(func.__name__, False).integers(whole, first.dtype), first.dtype,
                        first._quantizer)  # fmt: skip

    return joined


def _copied(self, src, non_blocking=False):
    if not isinstance(self, QuantizedTensor):
        return self.copy_(src.dequantize(), non_blocking)
    if not isinstance(src, QuantizedTensor):
        if src.dtype != tessera.float32:
            raise RuntimeError(f"copy_ into a quantized tensor: expected float32 numbers, but got {src.dtype}")
        self._ints().copy_(self._quantizer.integers(src, self.dtype), non_blocking)
    else:
        if src.dtype != self.dtype:
            raise RuntimeError(f"copy_: expected both tensors to be of dtype {self.dtype}, but got {src.dtype}")
        self._ints().copy_(src._ints(), non_blocking)
        self._quantizer = src._quantizer
    return self


def _rectified(input, inplace=False):
    zero_point = input._of_scheme("relu", False).zero_point
    levels = input._ints()
    return (
        _rectified_in_place(input) if inplace else _wrapped(levels.clamp_min(zero_point), input.dtype, input._quantizer)
    )


def _rectified_in_place(input):
    input._ints().clamp_min_(input._of_scheme("relu_", False).zero_point)
    return input


def _flattened_to(self, *args, **kwargs):
    wanted = [a for a in (*args, *kwargs.values()) if isinstance(a, tessera.dtype)]
    if wanted and wanted[0] != self.dtype:
        raise NotImplementedError(f"to({wanted[0]}) of a quantized tensor; call dequantize()")
    moved = self._ints().to(*[a for a in args if not isinstance(a, tessera.dtype)],
                            **{k: v for k, v in kwargs.items() if k != "dtype"})  # fmt: skip
    return _wrapped(moved, self.dtype, self._quantizer)


def _stored(value, target):
    """A number or tensor as integers of `target`."""
    if isinstance(value, QuantizedTensor):
        return value._ints()
    number = value if isinstance(value, tessera.Tensor) else tessera.tensor(value, dtype=tessera.float32)
    return target._of_scheme("writing into a quantized tensor", False).integers(number.float(), target.dtype)


def _set_item(self, index, value):
    self._ints()[index] = _stored(value, self)


def _filled(self, value=0.0):
    self._ints().copy_(_stored(value, self))
    return self


def _masked_filled_in_place(self, mask, value):
    self._ints().masked_fill_(mask, _stored(value, self))
    return self


def _squashing(func, scale, zero_points):
    """Results in a range that is known: quantized with the parameters of that range."""

    def squashed(input):
        return quantize_per_tensor(func(input.dequantize()), scale, zero_points[input.dtype], input.dtype)

    return squashed


_LOWEST = {tessera.quint8: 0, tessera.qint8: -128, tessera.qint32: -(2**31)}
_MIDDLE = {tessera.quint8: 128, tessera.qint8: 0, tessera.qint32: 0}
_SERVED = {
    "__setitem__": _set_item,
    "fill_": _filled,
    "zero_": _filled,
    "masked_fill_": _masked_filled_in_place,
    "masked_fill": lambda self, mask, value: _masked_filled_in_place(self.clone(), mask, value),
    "empty_like": lambda input, **options: empty_quantized(input.size(), input),
    "sigmoid": _squashing(tessera.sigmoid, 1 / 256, _LOWEST),
    "tanh": _squashing(tessera.tanh, 2 / 256, _MIDDLE),
    "type": lambda self: f"torch.quantized.{_TYPE_NAMES[self.dtype]}",
    "equal": _equal,
    "cat": _joined(tessera.cat),
    "concat": _joined(tessera.cat),
    "stack": _joined(tessera.stack),
    "copy_": _copied,
    "relu": _rectified,
    "relu_": _rectified_in_place,
    "to": _flattened_to,
    "cuda": lambda self, device=None, *args, **kwargs: _flattened_to(
        self, "cuda" if device is None else device, *args, **kwargs
    ),
    "dequantize": lambda tensor: tensor.dequantize(),
}


# ---- making them ----


def _overridable(function):
    """The function, whose calls are left to tensors of other kinds and to modes, as those of operators are."""

    @functools.wraps(function)
    def call(input, *args, **kwargs):
        if _is_tracing() and _recording():
            return _operator(function.__name__)(input, *args, **kwargs)
        given = [x for x in (input, *args, *kwargs.values()) if not isinstance(x, QuantizedTensor)]
        if tessera.overrides.has_torch_function(given):
            return tessera.overrides.handle_torch_function(call, given, input, *args, **kwargs)
        return function(input, *args, **kwargs)

    return call


def _checked(name, input, dtype):
    if dtype not in _INTEGERS:
        raise RuntimeError(f"{name}: expected a quantized dtype such as torch.quint8, but got {dtype}")
    if not isinstance(input, tessera.Tensor) or input.dtype != tessera.float32:
        raise RuntimeError(f"{name} only works on float tensors (float32), got {getattr(input, 'dtype', input)}")
    return input


def _checked_zero_point(name, zero_point, dtype):
    low, high = _range_of(dtype)
    if not low <= zero_point <= high:
        raise RuntimeError(f"{name}: expected a zero_point in [{low}, {high}], as {dtype} has, but got {zero_point}")
    return zero_point


@_overridable
def quantize_per_tensor(input, scale, zero_point, dtype):
    """The float32 tensor `input` as integers round(input / scale) + zero_point of a quantized dtype, saturated.

    Args:
        input: a tensor, or a list of tensors; then scale and zero_point are tensors with an element for each.
        scale: a positive number, or a tensor of one. zero_point: the integer that stands for 0.
    Returns a quantized tensor of input's shape, or a tuple of them. RuntimeError for other dtypes, and for a zero point
    outside of the dtype's range.
    """
    if isinstance(input, (list, tuple)):
        if len(scale) != len(input) or len(zero_point) != len(input):
            raise RuntimeError(f"quantize_per_tensor: expected {len(input)} scales and zero points, one per tensor, "
                               f"but got {len(scale)} and {len(zero_point)}")  # fmt: skip
        return tuple(quantize_per_tensor(t, s, z, dtype) for t, s, z in zip(input, scale, zero_point))
    _checked("quantize_per_tensor", input, dtype)
    zero_point = _checked_zero_point("quantize_per_tensor", int(zero_point), dtype)
    quantizer = _Quantizer(float(scale), zero_point)
    return _wrapped(quantizer.integers(input, dtype), dtype, quantizer)


@_overridable
def quantize_per_tensor_dynamic(input, dtype, reduce_range):
    """quantize_per_tensor with the scale and zero point that cover the range of `input` and 0.

    dtype: quint8 or qint8. reduce_range: with one bit less. RuntimeError for other dtypes.
    """
    _checked("quantize_per_tensor_dynamic", input, dtype)
    if dtype not in _DYNAMIC_RANGE:
        raise RuntimeError(f"quantize_per_tensor_dynamic: expected dtype quint8 or qint8, but got {dtype}")
    low, high = _DYNAMIC_RANGE[dtype]
    if reduce_range:
        low, high = low // 2, high // 2
    least, most = (min(float(input.min()), 0.0), max(float(input.max()), 0.0)) if input.numel() else (0.0, 0.0)
    scale = (most - least) / (high - low) or 0.1
    return quantize_per_tensor(input, scale, max(low, min(high, round(low - least / scale))), dtype)


@_overridable
def quantize_per_channel(input, scales, zero_points, axis, dtype):
    """Like quantize_per_tensor with a scale and a zero point for each index along `axis`: 1-D tensors of its size."""
    _checked("quantize_per_channel", input, dtype)
    if not 0 <= axis < input.dim():
        raise RuntimeError(f"quantize_per_channel: axis {axis} is out of range for a tensor of {input.dim()} dims")
    count = input.size(axis)
    if scales.shape != (count,) or zero_points.shape != (count,):
        raise RuntimeError(f"quantize_per_channel: expected {count} scales and zero points, as dim {axis} has, but "
                           f"got shapes {tuple(scales.shape)} and {tuple(zero_points.shape)}")  # fmt: skip
    if zero_points.is_floating_point():
        quantizer = _Quantizer(scales.detach().to(tessera.float32), zero_points.detach().to(tessera.float32), axis)
        return _wrapped(quantizer.integers(input, dtype), dtype, quantizer)
    for extreme in (zero_points.min(), zero_points.max()) if count else ():
        _checked_zero_point("quantize_per_channel", int(extreme), dtype)
    quantizer = _Quantizer(scales.detach().to(tessera.float64), zero_points.to(tessera.int64), axis)
    return _wrapped(quantizer.integers(input, dtype), dtype, quantizer)


def dequantize(tensor):
    """The float32 tensor of a quantized one; of a list or tuple of tensors the tuple of them. Others stay what they
    are.
    """
    if isinstance(tensor, (list, tuple)):
        return tuple(dequantize(t) for t in tensor)
    if not isinstance(tensor, QuantizedTensor) and tessera.overrides.has_torch_function((tensor,)):
        return tessera.overrides.handle_torch_function(dequantize, (tensor,), tensor)
    return tensor.dequantize()


def _accessor(name):
    def accessor(input):
        return getattr(input, name)()

    accessor.__name__ = accessor.__qualname__ = name
    accessor.__doc__ = f"input.{name}() of a quantized tensor. RuntimeError for others."
    return accessor


int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points, q_per_channel_axis = map(
    _accessor,
    "int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis".split(),
)


def _empty(size, dtype, device):
    return tessera.zeros(size, dtype=_INTEGERS[dtype], device=device)


def _empty_affine_quantized(size, *, scale=1.0, zero_point=0, dtype=tessera.quint8, device=None):
    """A quantized tensor of zero integers."""
    return _wrapped(_empty(size, dtype, device), dtype, _Quantizer(float(scale), int(zero_point)))


def _empty_per_channel_affine_quantized(size, *, scales, zero_points, axis, dtype=tessera.quint8, device=None):
    """A quantized tensor of zero integers with a scale for each channel."""
    quantizer = _Quantizer(scales.to(tessera.float64), zero_points.to(tessera.int64), axis)
    return _wrapped(_empty(size, dtype, device), dtype, quantizer)


def empty_quantized(
    size, qtensor, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None
):  # fmt: skip
    """A quantized tensor of zero integers with the parameters of `qtensor`. RuntimeError for a layout, a memory format
    or pinned memory: such tensors are strided and contiguous, in plain memory.
    """
    if layout not in (None, tessera.strided) or pin_memory or memory_format not in (None, tessera.contiguous_format):
        raise RuntimeError(
            "empty_quantized: expected a strided, contiguous tensor in plain memory, but got "
            f"layout={layout}, pin_memory={pin_memory}, memory_format={memory_format}"
        )
    kind = qtensor.dtype if dtype is None else dtype
    return _wrapped(_empty(size, kind, qtensor.device if device is None else device), kind, qtensor._quantizer)


_QUANTIZED = {tessera.uint8: tessera.quint8, tessera.int8: tessera.qint8, tessera.int32: tessera.qint32}


def _made_of(name, integers):
    if integers.dtype not in _QUANTIZED:
        raise RuntimeError(f"{name}: expected integers uint8, int8 or int32, but got {integers.dtype}")
    return integers.clone(), _QUANTIZED[integers.dtype]


def _make_per_tensor_quantized_tensor(input, scale, zero_point):
    """A quantized tensor of these integers."""
    integers, dtype = _made_of("_make_per_tensor_quantized_tensor", input)
    return _wrapped(integers, dtype, _Quantizer(float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(input, scale, zero_point, axis):
    """A quantized tensor of these integers, with a scale for each channel."""
    integers, dtype = _made_of("_make_per_channel_quantized_tensor", input)
    return _wrapped(integers, dtype, _Quantizer(scale.to(tessera.float64), zero_point.to(tessera.int64), axis))


# ---- functions of them ----


def quantized_max_pool1d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """max_pool1d of a quantized tensor (N, C, L) or (C, L)."""
    return tessera.nn.functional.max_pool1d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_max_pool2d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """max_pool2d of a quantized tensor (N, C, H, W) or (C, H, W)."""
    return tessera.nn.functional.max_pool2d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_max_pool3d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """max_pool3d of a quantized tensor (N, C, D, H, W) or (C, D, H, W)."""
    return tessera.nn.functional.max_pool3d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    """Batch normalisation by given statistics of a quantized tensor (N, C, ...), quantized by the given parameters."""
    numbers = tessera.batch_norm(input.dequantize(), weight, bias, mean, var, False, 0.0, eps, False)
    return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)


# ---- quantization in effect, for training ----


def _in_effect(x, scale, zero_point, low, high, axis=-1):
    whole = not isinstance(zero_point, tessera.Tensor) or not zero_point.is_floating_point()
    if whole and type(x) is tessera.Tensor and x.is_cpu and x.dtype == tessera.float32 and abs(low) <= 2**23 >= high:
        values = [v.flatten().tolist() if isinstance(v, tessera.Tensor) else [v] for v in (scale, zero_point)]
        return _C._fake_quantize_affine(x, *values, axis, low, high)[0]
    levels = (x.detach().float() * (1.0 / scale)).round() + zero_point
    numbers = ((levels.clamp(low, high) - zero_point) * scale).to(x.dtype)
    if not x.requires_grad:
        return numbers
    inside = (levels >= low) & (levels <= high)
    return numbers + tessera.where(inside, x - x.detach(), tessera.zeros((), dtype=x.dtype, device=x.device))


def _checked_bounds(name, low, high, least, most):
    if low > high:
        raise RuntimeError(f"{name}: expected quant_min <= quant_max, but got {low} and {high}")
    if least < low or most > high:
        raise RuntimeError(f"{name}: `zero_point` must be between `quant_min` and `quant_max` ({low} and {high}), but "
                           f"got {least if least < low else most}")  # fmt: skip


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """The numbers that quantized integers in [quant_min, quant_max] can stand for, nearest to those of `input`.

    The gradient is that of the identity where the integer is inside of the bounds, and 0 elsewhere. scale, zero_point:
    numbers, or tensors of one element. RuntimeError if zero_point is out of bounds.
    """
    if not isinstance(zero_point, tessera.Tensor):
        _checked_bounds("fake_quantize_per_tensor_affine", quant_min, quant_max, zero_point, zero_point)
        scale = _single(scale)
    return _in_effect(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """Like fake_quantize_per_tensor_affine with a scale (float) and a zero point (int32 or float) for each index along
    `axis`: 1-D tensors of its size.
    """
    name = "fake_quantize_per_channel_affine"
    if scale.dim() != 1 or scale.shape != zero_point.shape or scale.size(0) != input.size(axis):
        raise RuntimeError(f"{name}: expected scale and zero_point of shape ({input.size(axis)},), the size of dim "
                           f"{axis}, but got {tuple(scale.shape)} and {tuple(zero_point.shape)}")  # fmt: skip
    if zero_point.dtype not in (tessera.int32, tessera.float32, tessera.float16):
        raise RuntimeError(f"{name}: expected a zero_point of int32, float32 or float16, but got {zero_point.dtype}")
    if scale.numel():
        _checked_bounds(name, quant_min, quant_max, float(zero_point.min()), float(zero_point.max()))
    shape = [-1 if i == axis % input.dim() else 1 for i in range(input.dim())]
    return _in_effect(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max, axis % input.dim())
