"""Operators on quantized tensors: `torch.ops.quantized`.

Products are those of the integers, exact in int32; what is added to them and by what they are scaled follows once, in
float32, and is rounded to the nearest even integer.
"""

import tessera
from tessera import nn
from tessera._root.quantized import QuantizedTensor, _is_tracing, _Quantizer, _recording, _wrapped

F = nn.functional
_BOUNDS = {tessera.quint8: (0, 255), tessera.qint8: (-128, 127)}
_KIND = {tessera.quint8: tessera.uint8, tessera.qint8: tessera.int8}


def _quantized(name, x):
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(f"Could not run 'quantized::{name}' with arguments from the 'CPU' backend: expected "
                                  f"a quantized tensor, but got {getattr(x, 'dtype', type(x).__name__)}")  # fmt: skip
    return x


def _requantized(numbers, scale, zero_point, dtype=tessera.quint8):
    return tessera.quantize_per_tensor(numbers, float(scale), int(zero_point), dtype)


class PackedWeight:
    """A quantized weight (output channels first) and its bias, as *_prepack returns it, with what all products need:
    the integers as a matrix, its sums and scales. `geometry`: of a convolution.
    """

    def __init__(self, weight, bias=None, **geometry):
        if weight.dtype != tessera.qint8 and not weight.dtype == tessera.float16:
            raise RuntimeError(f"expected weights of qint8 (or float16), but got {weight.dtype}")
        self._weight, self._bias, self.geometry = weight, bias, geometry
        self._ready, self._filters, self._offset, self._factors = None, None, (None, None), (None, None)

    def weight(self):
        """The weight."""
        return self._weight

    def bias(self):
        """The bias, or None."""
        return self._bias

    def unpack(self):
        """(weight, bias)."""
        return self._weight, self._bias

    def parts(self):
        """(integers (groups, K, N), their sums over K (groups, N), scales, zero points (float32, N or 1))."""
        if self._ready is None:
            integers = self._weight._ints()
            quantizer = self._weight._quantizer
            if self.geometry.get("transposed"):
                raise AssertionError("weights of transposed convolutions have no matrix")
            rows = integers.flatten(1) if integers.dim() > 1 else integers
            groups = self.geometry.get("groups", 1)
            rows = rows.reshape(groups, rows.shape[0] // groups, -1)
            sums = rows.sum(2, dtype=tessera.int32)
            scale = tessera.as_tensor(quantizer.scale, dtype=tessera.float32).reshape(-1)
            zero_point = tessera.as_tensor(quantizer.zero_point, dtype=tessera.int32).reshape(-1)
            self._ready = rows.transpose(1, 2), sums.flatten(), scale, zero_point, not bool(zero_point.any())
        return self._ready

    def filters(self):
        """The integers with their channels last: (out, kernel..., in / groups)."""
        if self._filters is None:
            self._filters = self._weight._ints().movedim(1, -1).contiguous()
        return self._filters

    def offset(self, zero_point):
        """zero_point times the sums of each column."""
        if self._offset[0] != zero_point:
            self._offset = zero_point, zero_point * self.parts()[1]
        return self._offset[1]

    def factors(self, in_scale, out_scale):
        """(factor, bias) of each column for _requantize_sums."""
        if self._factors[0] != (in_scale, out_scale):
            _, sums, scale, *_ = self.parts()
            by = (scale * in_scale).expand(sums.shape[0]).contiguous()
            bias = None if self._bias is None else self._bias.detach().float()
            if out_scale is not None:
                bias, by = None if bias is None else bias / by, by / out_scale
            self._factors = (in_scale, out_scale), (by, bias)
        return self._factors[1]

    def __reduce__(self):
        return _packed, (self._weight, self._bias, self.geometry)

    def __deepcopy__(self, memo):
        copy = lambda t: None if t is None else t.clone()  # noqa: E731
        return PackedWeight(copy(self._weight), copy(self._bias), **self.geometry)


def _packed(weight, bias, geometry):
    return PackedWeight(weight, bias, **geometry)


def _product(rows, zero_point, packed, group=0):
    """The int32 sums of row * weight over bytes (M, K), and what is to be taken from them: a number for each column, or
    None. Zero points of weights are taken already.
    """
    matrices, sums, _, weight_zero, centred = packed.parts()
    matrix = matrices[group]
    mine = slice(group * matrix.shape[1], (group + 1) * matrix.shape[1])
    total = tessera._int_mm(rows, matrix)
    if not centred:
        offset = weight_zero if weight_zero.shape[0] == 1 else weight_zero[mine]
        total -= (rows.sum(1, keepdim=True, dtype=tessera.int32) - rows.shape[1] * zero_point) * offset
    return total, (packed.offset(zero_point)[mine] if zero_point else None)


def _layer(ints, zero_point, packed, in_scale, out_scale, out_zero, dtype, lowest=None):
    """What a layer makes of bytes (N, sizes..., C), as _finish has it: (N, sizes..., out). Weights' zero is 0."""
    factor, bias = packed.factors(in_scale, out_scale)
    low, high = _BOUNDS.get(dtype, (0, 0))
    low = low if lowest is None else max(low, lowest)
    g = packed.geometry
    return tessera._C._quantized_convolution(
        ints, zero_point, packed.filters(), g.get("stride", ()), g.get("padding", ()), g.get("dilation", ()),
        g.get("groups", 1), packed.offset(zero_point) if zero_point else None, factor, bias, out_zero, low, high,
        tessera.float32 if out_scale is None else _KIND[dtype],
    )  # fmt: skip


def _finish(total, offset, packed, in_scale, out_scale, out_zero, dtype, lowest=None, group=None):
    """Sums (M, N) with bias and scales, as integers of `dtype`; as floats where out_scale is None."""
    factor, bias = packed.factors(in_scale, out_scale)
    if group is not None:
        mine = slice(group * total.shape[1], (group + 1) * total.shape[1])
        factor, bias = factor[mine], None if bias is None else bias[mine]
    if out_scale is None:
        return tessera._C._requantize_sums(total, offset, factor, bias, 0, 0, 0, tessera.float32)
    low, high = _BOUNDS[dtype]
    low = low if lowest is None else max(low, lowest)
    return tessera._C._requantize_sums(total, offset, factor, bias, out_zero, low, high, _KIND[dtype])


# ---- linear ----


def _prepack(weight, bias=None):
    """Weights (out, in) of qint8 with a bias (out) or None."""
    return PackedWeight(weight, bias)


def _multiplied(rows, zero_point, packed, *scales):
    """Bytes (M, in) times the weights: results of _finish(..., *scales), (M, out)."""
    if packed.parts()[-1]:
        return _layer(rows, zero_point, packed, *scales)
    return _finish(*_product(rows, zero_point, packed), packed, *scales)


def _linear_of(relu, after=None):
    def linear(X, W_prepack, Y_scale_i, Y_zero_point_i, *more):
        x = _quantized("linear", X)
        quantizer, ints = x._quantizer, x._ints()
        given = (ints.reshape(-1, ints.shape[-1]), quantizer.zero_point, W_prepack, quantizer.scale)
        shape = (*ints.shape[:-1], W_prepack.weight().shape[0])
        if after is not None:
            numbers = after(_multiplied(*given, None, 0, None), *more)
            return _requantized(numbers.reshape(shape), Y_scale_i, Y_zero_point_i, x.dtype)
        scale, zero = float(Y_scale_i), int(Y_zero_point_i)
        out = _multiplied(*given, scale, zero, x.dtype, zero if relu else None)
        return _wrapped(out.reshape(shape), x.dtype, _Quantizer(scale, zero))

    return linear


def _chosen(x, reduce_range):
    """x as bytes with the scale and zero point that cover it: (bytes, scale, zero point)."""
    q = tessera.quantize_per_tensor_dynamic(x.detach(), tessera.quint8, reduce_range)
    return q._ints(), q._quantizer.scale, q._quantizer.zero_point


def _linear_dynamic(X, W_prepack, reduce_range=False):
    """X (*, in) of float32 times the weights, (*, out) of float32; X is rounded to bytes by its own range."""
    weight = W_prepack.weight()
    if weight.dtype == tessera.float16:
        return F.linear(X, weight.float(), W_prepack.bias())
    if X.numel() == 0:
        return X.new_empty(*X.shape[:-1], weight.shape[0])
    _, sums, scale, _, centred = W_prepack.parts()
    if centred and X.dtype == tessera.float32:
        bias = W_prepack.bias()
        bias = None if bias is None else bias.detach().float()
        return tessera._C._dynamic_product(X, W_prepack.filters(), sums, scale, bias, reduce_range)
    rows, scale, zero = _chosen(X.reshape(-1, X.shape[-1]), reduce_range)
    out = _multiplied(rows, zero, W_prepack, scale, None, 0, None)
    return out.reshape(*X.shape[:-1], out.shape[1])


# ---- convolution ----


def _several(value, count):
    return [int(value)] * count if isinstance(value, int) else [int(v) for v in value]


def _conv_prepack(dims):
    def prepack(weight, bias, stride, padding, dilation, groups):
        return PackedWeight(
            weight, bias, stride=_several(stride, dims), padding=_several(padding, dims),
            dilation=_several(dilation, dims), groups=groups, dims=dims,
        )  # fmt: skip

    return prepack


def _conv_transpose_prepack(dims):
    def prepack(weight, bias, stride, padding, output_padding, dilation, groups):
        return PackedWeight(
            weight, bias, stride=_several(stride, dims), padding=_several(padding, dims), groups=groups, dims=dims,
            output_padding=_several(output_padding, dims), dilation=_several(dilation, dims), transposed=True,
        )  # fmt: skip

    return prepack


def _patches(ints, zero_point, packed):
    """What each output position reads: (N * positions, groups, C / groups * kernel) of bytes, and the output's size."""
    g = packed.geometry
    dims, kernel = g["dims"], packed.weight().shape[2:]
    edges = [p for pad in reversed(g["padding"]) for p in (pad, pad)]
    if any(edges):
        ints = F.pad(ints, edges, value=zero_point)
    n, c, size = ints.shape[0], ints.shape[1], ints.shape[2:]
    out = [(size[i] - g["dilation"][i] * (kernel[i] - 1) - 1) // g["stride"][i] + 1 for i in range(dims)]
    if min(out) <= 0:
        raise RuntimeError(f"Calculated output size {out} is too small for a kernel of {tuple(kernel)}")
    ints = ints.contiguous()
    steps = ints.stride()
    view = ints.as_strided(
        (n, *out, c, *kernel),
        (steps[0], *[steps[2 + i] * g["stride"][i] for i in range(dims)], steps[1],
         *[steps[2 + i] * g["dilation"][i] for i in range(dims)]),
    )  # fmt: skip
    return view.reshape(-1, g["groups"], c // g["groups"] * kernel.numel()), (n, *out)


def _convolved(ints, zero_point, packed, *scales):
    """A convolution of bytes: results of _finish(..., *scales), channels last, and the output's size."""
    groups = packed.geometry["groups"]
    if packed.parts()[-1]:
        out = _layer(ints.movedim(1, -1), zero_point, packed, *scales)
        return out, out.shape[:-1]
    rows, size = _patches(ints, zero_point, packed)
    if groups == 1:
        return _finish(*_product(rows[:, 0], zero_point, packed), packed, *scales), size
    parts = [_finish(*_product(rows[:, g].contiguous(), zero_point, packed, g), packed, *scales, group=g)
             for g in range(groups)]  # fmt: skip
    return tessera.cat(parts, 1), size


def _channels_second(rows, size):
    return rows.reshape(*size, -1).movedim(-1, 1)


def _transposed(numbers, packed):
    """A transposed convolution of centred integers (float64), exact."""
    g, weight = packed.geometry, packed.weight()
    quantizer = weight._quantizer
    centred = weight._ints().double() - (
        quantizer.zero_point if quantizer.axis is None else quantizer.spread(weight)[1]
    )
    function = getattr(F, f"conv_transpose{g['dims']}d")
    return function(numbers, centred, None, g["stride"], g["padding"], g["output_padding"], g["groups"], g["dilation"])


def _transposed_finish(sums, packed, in_scale):
    """Sums (N, C, ...) with scales and bias, float32."""
    quantizer = packed.weight()._quantizer
    scale = quantizer.scale if quantizer.axis is None else quantizer.scale.float().reshape(-1, *[1] * (sums.dim() - 2))
    numbers = sums.float() * (scale * in_scale)
    bias = packed.bias()
    return numbers if bias is None else numbers + bias.detach().reshape(-1, *[1] * (sums.dim() - 2))


def _conv_of(dims, relu=False, add=False):
    def conv(qx, packed_weight, *rest):
        x = _quantized(f"conv{dims}d", qx)
        extra = rest[0] if add else None
        output_scale, output_zero_point = rest[-2:]
        scale, zero = float(output_scale), int(output_zero_point)
        quantizer, ints = x._quantizer, x._ints()
        single = ints.dim() == dims + 1
        if ints.dim() - (not single) != dims + 1:
            raise RuntimeError(f"quantized::conv{dims}d(): expected an input of {dims + 2} dims, but got {ints.dim()}")
        if single:
            ints = ints.unsqueeze(0)
        if packed_weight.geometry.get("transposed"):
            sums = _transposed(ints.double() - quantizer.zero_point, packed_weight)
            numbers = _transposed_finish(sums, packed_weight, quantizer.scale)
            made = _requantized(numbers.relu() if relu else numbers, scale, zero, x.dtype)
            return made[0] if single else made
        given = (ints, quantizer.zero_point, packed_weight, quantizer.scale)
        if extra is not None:
            numbers = _channels_second(*_convolved(*given, None, 0, None))
            numbers = numbers + extra.dequantize().reshape(numbers.shape)
            return _requantized(numbers.relu() if relu else numbers, scale, zero, x.dtype)
        out = _channels_second(*_convolved(*given, scale, zero, x.dtype, zero if relu else None))
        return _wrapped(out[0] if single else out, x.dtype, _Quantizer(scale, zero))

    return conv


def _conv_dynamic(qx, packed_weight, reduce_range=False):
    """A convolution of a float32 tensor, rounded to bytes by its own range; float32."""
    ints, scale, zero = _chosen(qx, reduce_range)
    if packed_weight.geometry.get("transposed"):
        return _transposed_finish(_transposed(ints.double() - zero, packed_weight), packed_weight, scale)
    return _channels_second(*_convolved(ints, zero, packed_weight, scale, None, 0, None)).contiguous()


# ---- elements ----


def _by_numbers(function, relu=False):
    """An operator of quantized tensors by the numbers that they stand for, quantized by the last two arguments."""

    def operator(*args, **kwargs):
        scale, zero = kwargs.pop("scale", None), kwargs.pop("zero_point", None)
        if scale is None:
            *args, scale, zero = args
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        plain = lambda a: a.dequantize() if isinstance(a, QuantizedTensor) else a  # noqa: E731
        args = [[plain(b) for b in a] if isinstance(a, (list, tuple)) else plain(a) for a in args]
        numbers = function(*args, **kwargs)
        return _requantized(numbers.relu() if relu else numbers, scale, zero, _quantized("operator", first).dtype)

    return operator


def _scalar_added(x, value, relu=False):
    """x + value; the integers stay where the range allows, and the zero point moves."""
    q, (low, high) = x._quantizer, _BOUNDS[x.dtype]
    shift = int(round(value / q.scale))
    zero = q.zero_point - shift
    if low <= zero <= high:
        made = _wrapped(x._ints().clone(), x.dtype, _Quantizer(q.scale, zero))
        return made.relu() if relu else made
    # A range that the zero point leaves is made larger until it holds 0 again.
    if zero < low:
        scale, zero = (high - zero) / (high - low) * q.scale, low
    else:
        scale, zero = (zero - low) / (high - low) * q.scale, high
    numbers = x.dequantize() + shift * q.scale
    return _requantized(numbers.relu() if relu else numbers, scale, zero, x.dtype)


def _scalar_times(x, value, relu=False):
    """x * value: the scale changes, and for a negative value the integers turn around."""
    q, (low, high) = x._quantizer, _BOUNDS[x.dtype]
    if value > 0:
        made = _wrapped(x._ints().clone(), x.dtype, _Quantizer(q.scale * value, q.zero_point))
    elif value == 0:
        made = _wrapped(x._ints() * 0, x.dtype, _Quantizer(1.0, 0))
    else:
        turned = (high + low - x._ints().to(tessera.int32)).to(_KIND[x.dtype])
        made = _wrapped(turned, x.dtype, _Quantizer(q.scale * -value, high + low - q.zero_point))
    return made.relu() if relu else made


def _add(a, b):
    return a + b


def _multiply(a, b):
    return a * b


def _either(element, scalar, relu):
    by_numbers = _by_numbers(element, relu)

    def operator(qa, qb, *rest, **kwargs):
        if not isinstance(qb, tessera.Tensor):
            return scalar(qa, float(qb), relu)
        return by_numbers(qa, qb, *rest, **kwargs)

    return operator


def _batch_norm(x, weight, bias, mean, var, eps):
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


def _norm(function):
    by_numbers = lambda x, *args: function(x, *args)  # noqa: E731

    def operator(input, *args, output_scale=None, output_zero_point=None):
        if output_scale is None:
            *args, output_scale, output_zero_point = args
        return _requantized(by_numbers(input.dequantize(), *args), output_scale, output_zero_point, input.dtype)

    return operator


def _bag(qweight, indices, offsets=None, *, mode="sum", include_last_offset=False, per_sample_weights=None):
    return F.embedding_bag(indices, qweight.dequantize(), offsets, mode=mode, per_sample_weights=per_sample_weights,
                           include_last_offset=include_last_offset)  # fmt: skip


class PackedEmbedding(PackedWeight):
    """The weight of an embedding, quint8 or quint4x2."""

    def __init__(self, weight):
        self._weight, self._bias, self.geometry, self._ready = weight, None, {}, None

    def unpack(self):
        """The weight."""
        return self._weight

    def __reduce__(self):
        return PackedEmbedding, (self._weight,)

    def __deepcopy__(self, memo):
        return PackedEmbedding(self._weight.clone())


def _embedding_bag_of(kind):
    def bag(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
            per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False):  # fmt: skip
        """The sums (mode 0) or means of the rows that each bag names, float32. NotImplementedError with
        scale_grad_by_freq: these weights have no gradient.
        """
        if scale_grad_by_freq:
            raise NotImplementedError("embedding_bag of quantized weights: expected scale_grad_by_freq=False, because "
                                      "quantized weights have no gradient to scale, but got True")  # fmt: skip
        if weight.unpack().dtype not in kind:
            raise RuntimeError(f"expected weights of {kind}, but got {weight.unpack().dtype}")
        if compressed_indices_mapping is not None and pruned_weights:
            indices = compressed_indices_mapping[indices]
        return _bag(weight.unpack(), indices, offsets, mode=("sum", "mean", "max")[mode],
                    include_last_offset=include_last_offset, per_sample_weights=per_sample_weights)  # fmt: skip

    return bag


def _embedding(weight, indices, pruned_weights=False):
    """The rows of a packed embedding, float32. NotImplementedError with pruned_weights."""
    if pruned_weights:
        raise NotImplementedError("embedding of quantized weights: expected pruned_weights=False, but got True; "
                                  "embedding_bag takes a mapping of the rows that are left")  # fmt: skip
    return F.embedding(indices, weight.unpack().dequantize())


def _recurrent(input, hx, cells, config):
    return tessera.ao.nn.quantized.dynamic.modules.rnn.recurrent(input, hx, cells, config)


def _unpack(packed):
    return packed.unpack()


_F16 = tessera.float16


def _table():
    """Name -> function."""
    table = {
        "linear_prepack": _prepack, "linear_unpack": _unpack, "linear": _linear_of(False),
        "linear_relu": _linear_of(True), "linear_leaky_relu": _linear_of(False, F.leaky_relu),
        "linear_tanh": _linear_of(False, tessera.tanh), "linear_dynamic": _linear_dynamic,
        "linear_relu_dynamic": lambda X, W_prepack, reduce_range=False: (
            _linear_dynamic(X, W_prepack, reduce_range).relu()),
        "linear_prepack_fp16": lambda weight, bias=None: PackedWeight(weight.to(_F16), bias),
        "linear_unpack_fp16": _unpack, "linear_dynamic_fp16": _linear_dynamic,
        "linear_relu_dynamic_fp16": lambda X, W_prepack: _linear_dynamic(X, W_prepack).relu(),
        "add": _either(_add, _scalar_added, False), "add_relu": _either(_add, _scalar_added, True),
        "mul": _either(_multiply, _scalar_times, False), "mul_relu": _either(_multiply, _scalar_times, True),
        "add_scalar": lambda qa, b: _scalar_added(qa, float(b)),
        "add_scalar_relu": lambda qa, b: _scalar_added(qa, float(b), True),
        "mul_scalar": lambda qa, b: _scalar_times(qa, float(b)),
        "mul_scalar_relu": lambda qa, b: _scalar_times(qa, float(b), True),
        "matmul": _by_numbers(tessera.matmul), "cat_relu": None,
        "relu6": lambda qx, inplace=False: F.relu6(qx),
        "clamp": lambda qx, min=None, max=None: tessera.clamp(qx, min, max),
        "threshold": lambda qx, threshold, value: F.threshold(qx, threshold, value),
        "hardswish": _norm(F.hardswish), "sigmoid": _norm(tessera.sigmoid), "softmax": None,
        "elu": lambda self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1: _requantized(
            F.elu(self.dequantize() * input_scale, alpha) * scale, output_scale, output_zero_point, self.dtype),
        "celu": lambda self, output_scale, output_zero_point, alpha=1: _requantized(
            F.celu(self.dequantize(), alpha), output_scale, output_zero_point, self.dtype),
        "leaky_relu": lambda qx, negative_slope, inplace, output_scale, output_zero_point: _requantized(
            F.leaky_relu(qx.dequantize(), negative_slope), output_scale, output_zero_point, qx.dtype),
        "prelu": lambda qx, weight, output_scale, output_zero_point: _requantized(
            F.prelu(qx.dequantize(), weight.dequantize()), output_scale, output_zero_point, qx.dtype),
        "dropout": lambda self, output_scale, output_zero_point, p=0.5, training=False: self.clone(),
        "layer_norm": _norm(F.layer_norm), "group_norm": _norm(F.group_norm),
        "instance_norm": _norm(lambda x, w, b, eps: F.instance_norm(x, weight=w, bias=b, eps=eps)),
        "embedding_bag_prepack": PackedEmbedding, "embedding_bag_unpack": _unpack, "embedding_byte": _embedding,
        "embedding_4bit": _embedding, "recurrent_dynamic": _recurrent,
        "embedding_bag_byte": _embedding_bag_of((tessera.quint8,)),
        "embedding_bag_4bit": _embedding_bag_of((tessera.quint4x2,)),
    }  # fmt: skip
    table["softmax"] = lambda qx, dim, output_scale, output_zero_point: _requantized(
        tessera.softmax(qx.dequantize(), dim), output_scale, output_zero_point, qx.dtype)  # fmt: skip

    def cat(qx, dim, scale=None, zero_point=None, relu=False):
        first = qx[0]._quantizer
        numbers = tessera.cat([q.dequantize() for q in qx], dim)
        return _requantized(numbers.relu() if relu else numbers, first.scale if scale is None else scale,
                            first.zero_point if zero_point is None else zero_point, qx[0].dtype)  # fmt: skip

    table["cat"] = cat
    table["cat_relu"] = lambda qx, dim, scale=None, zero_point=None: cat(qx, dim, scale, zero_point, True)
    for dims in (1, 2, 3):
        conv = f"conv{dims}d"
        table.update({
            f"{conv}_prepack": _conv_prepack(dims), f"{conv}_unpack": _unpack, conv: _conv_of(dims),
            f"{conv}_relu": _conv_of(dims, True), f"{conv}_dynamic": _conv_dynamic,
            f"{conv}_add": _conv_of(dims, add=True), f"{conv}_add_relu": _conv_of(dims, True, True),
            f"conv_transpose{dims}d_prepack": _conv_transpose_prepack(dims), f"conv_transpose{dims}d_unpack": _unpack,
            f"conv_transpose{dims}d": _conv_of(dims), f"conv_transpose{dims}d_dynamic": _conv_dynamic,
            f"batch_norm{dims}d": _norm(_batch_norm),
            f"batch_norm{dims}d_relu": _norm(lambda *args: _batch_norm(*args).relu()),
        })  # fmt: skip
    table["batch_norm"] = _norm(_batch_norm)
    return table


def _called(name, function):
    def operator(*args, **kwargs):
        if _is_tracing() and _recording():
            return getattr(operators, name)._get("")(*args, **kwargs)
        return function(*args, **kwargs)

    return operator


def _named(name, function):
    function.__name__ = function.__qualname__ = name
    function.__module__ = "tessera.ops.quantized"
    function.__doc__ = function.__doc__ or f"quantized::{name}: see the folder's README for arguments."
    return function


class _Operators:
    """Operators on quantized tensors: torch.ops.quantized.NAME(...), NAME.default is the same."""

    name = __name__ = "quantized"

    def __init__(self):
        for name, function in _table().items():
            if name in self.__dict__:
                continue
            if isinstance(function, type):
                made = lambda weight, kind=function: kind(weight)  # noqa: E731
            else:
                made = _called(name, function)
            operator = _named(name, made)
            operator.__wrapped__ = function
            operator.default = operator
            self.__dict__[name] = operator

    def __getattr__(self, name):
        raise AttributeError(f"'_OpNamespace' 'quantized' object has no attribute '{name}'")

    def __repr__(self):
        return "<namespace ops.quantized>"


operators = _Operators()
