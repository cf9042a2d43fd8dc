"""Translations of convolutions, pools, norms and resampling."""

import math

import tessera
from tessera.onnx._build import Value
from tessera.onnx._operators.reductions import moments
from tessera.onnx._table import TABLE, aten


def many(x, n):
    """n numbers of one number or a list."""
    x = [x] if isinstance(x, int) else list(x)
    return x * n if len(x) == 1 else x


def batched(b, x, n, f):
    """A function of batches of images of n dimensions, on one image too."""
    if x.rank == n + 2:
        return f(x)
    made = f(b.unsqueeze(x, 0))
    if isinstance(made, tuple):
        return tuple(None if m is None else b.squeeze(m, 0) for m in made)
    return b.squeeze(made, 0)


# --- convolutions ---


def _conv(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = weight.rank - 2
    kernel = [b.dim(weight, i + 2) for i in range(n)]
    attrs = {"strides": many(stride, n), "dilations": many(dilation, n), "group": groups}
    if all(isinstance(k, int) for k in kernel):
        attrs["kernel_shape"] = kernel
    if isinstance(padding, str):
        if padding == "valid":
            attrs["pads"] = [0] * 2 * n
        else:
            whole = [d * (k - 1) for d, k in zip(attrs["dilations"], kernel)]
            attrs["pads"] = [w // 2 for w in whole] + [w - w // 2 for w in whole]
    else:
        attrs["pads"] = many(padding, n) * 2
    if transposed:
        if any(many(output_padding, n)):
            attrs["output_padding"] = many(output_padding, n)
        return b.op("ConvTranspose", x, weight, bias, **attrs)
    return b.op("Conv", x, weight, bias, **attrs)


@aten("conv1d conv2d conv3d")
def conv(b, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return batched(b, input, weight.rank - 2,
                   lambda x: _conv(b, x, weight, bias, stride, padding, dilation, False, 0, groups))  # fmt: skip


@aten("convolution _convolution convolution_overrideable")
def convolution(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, **_):
    return batched(b, input, weight.rank - 2, lambda x: _conv(
        b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups))  # fmt: skip


convolution.takes_all = True


@aten("conv_transpose1d conv_transpose2d conv_transpose3d")
def conv_transpose(b, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return batched(b, input, weight.rank - 2,
                   lambda x: _conv(b, x, weight, bias, stride, padding, dilation, True, output_padding,
                                   groups))  # fmt: skip


# --- norms ---


def _columns(b, v, x, number):
    """A weight of channels, or one number for each of them."""
    return b.full([b.dim(x, 1)], number, x.dtype) if v is None and isinstance(b.dim(x, 1), Value) else (
        b.const([float(number)] * x.shape[1], x.dtype) if v is None else v
    )  # fmt: skip


def _beside(b, v, rank):
    """A weight of channels as it lies beside a batch."""
    return b.reshape(v, [-1] + [1] * (rank - 2))


@aten("batch_norm _batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training")
def batch_norm(b, input, weight, bias, running_mean=None, running_var=None, training=False, momentum=0.1, eps=1e-5,
               cudnn_enabled=True):  # fmt: skip
    if training or running_mean is None:
        axes = [0, *range(2, input.rank)]
        var, mean = moments(b, input, axes, 0, True)
        made = (input - mean) / b.Sqrt(var + float(eps))
        made = made if weight is None else made * _beside(b, weight, input.rank)
        return made if bias is None else made + _beside(b, bias, input.rank)
    scale, shift = _columns(b, weight, input, 1), _columns(b, bias, input, 0)
    return b.op("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=float(eps))


def _with_statistics(f):
    return lambda b, **kw: (f(b, **{"training": False, **kw}), None, None)


for _name in "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training".split():
    TABLE["aten::" + _name] = _with_statistics(batch_norm)
    TABLE["aten::" + _name].takes_all = True


@aten("instance_norm")
def instance_norm(b, input, weight=None, bias=None, running_mean=None, running_var=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5, cudnn_enabled=True):  # fmt: skip
    if not use_input_stats:
        return batch_norm(b, input, weight, bias, running_mean, running_var, False, momentum, eps)
    return b.op("InstanceNormalization", input, _columns(b, weight, input, 1), _columns(b, bias, input, 0),
                epsilon=float(eps))  # fmt: skip


@aten("group_norm")
def group_norm(b, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    ones, zeros = b.const([1.0] * num_groups, input.dtype), b.const([0.0] * num_groups, input.dtype)
    made = b.op("InstanceNormalization", b.Reshape(input, [0, num_groups, -1]), ones, zeros, epsilon=float(eps))
    made = b.Reshape(made, b.cached("Shape", input)) if None in _fixed(input) else b.reshape(made, list(input.shape))
    made = made if weight is None else made * _beside(b, weight, input.rank)
    return made if bias is None else made + _beside(b, bias, input.rank)


def _fixed(x):
    return [s if isinstance(s, int) else None for s in x.shape]


@aten("native_group_norm")
def native_group_norm(b, input, weight, bias, N, C, HxW, group, eps):
    return group_norm(b, input, group, weight, bias, eps), None, None


@aten("layer_norm")
def layer_norm(b, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    n = len(normalized_shape)
    if b.opset >= 17 and math.prod([s if isinstance(s, int) else 2 for s in normalized_shape]) > 1:
        if weight is None:
            weight = b.full(list(normalized_shape), 1, input.dtype)
        return b.op("LayerNormalization", input, weight, bias, axis=-n, epsilon=float(eps))
    var, mean = moments(b, input, range(-n, 0), 0, True)
    made = (input - mean) / b.Sqrt(var + float(eps))
    made = made if weight is None else made * weight
    return made if bias is None else made + bias


@aten("native_layer_norm _native_layer_norm")
def native_layer_norm(b, input, normalized_shape, weight, bias, eps):
    return layer_norm(b, input, normalized_shape, weight, bias, eps), None, None


@aten("rms_norm _fused_rms_norm")
def rms_norm(b, input, normalized_shape, weight=None, eps=None):
    eps = tessera.finfo(input.dtype).eps if eps is None else eps
    if b.opset >= 23:
        weight = b.full(list(normalized_shape), 1, input.dtype) if weight is None else weight
        return b.op("RMSNormalization", input, weight, axis=-len(normalized_shape), epsilon=float(eps))
    mean = b.reduce("ReduceMean", input * input, range(-len(normalized_shape), 0), True)
    made = input / b.Sqrt(mean + float(eps))
    return made if weight is None else made * weight


@aten("local_response_norm")
def local_response_norm(b, input, size, alpha=1e-4, beta=0.75, k=1.0):
    return b.op("LRN", input, size=size, alpha=float(alpha), beta=float(beta), bias=float(k))


def _softmax(op):
    def translate(b, self, dim, dtype=None, half_to_float=False):
        x = b.to(self, b.out_dtype or dtype or self.dtype)
        if self.shape == ():
            return b.squeeze(b.op(op, b.unsqueeze(x, 0), axis=0), 0)
        return b.op(op, x, axis=dim)

    return translate


for _name in ("softmax", "_softmax", "special_softmax"):
    TABLE["aten::" + _name] = _softmax("Softmax")
for _name in ("log_softmax", "_log_softmax", "special_log_softmax"):
    TABLE["aten::" + _name] = _softmax("LogSoftmax")
TABLE["aten::softmin"] = lambda b, self, dim, dtype=None: _softmax("Softmax")(b, -self, dim, dtype)


# --- pools ---


def _pool(b, op, x, n, kernel, stride, padding, ceil_mode, outputs=1, **attrs):
    kernel = many(kernel, n)
    stride = many(stride, n) if stride else kernel
    padding = many(padding, n)
    padding = padding * 2 if len(padding) == n else padding
    return b.op(op, x, kernel_shape=kernel, strides=stride, pads=padding, ceil_mode=int(ceil_mode), outputs=outputs,
                **attrs)  # fmt: skip


def _sizes(b, x, n, kernel, stride, padding, dilation=1):
    """[(size, window, step, padding, size of the result)] for each of n dimensions; None if some may differ."""
    out = b.out[0] if isinstance(b.out, (list, tuple)) else b.out
    ends = list(out.shape[-n:]) if isinstance(out, tessera.Tensor) else [None] * n
    kernel, stride = many(kernel, n), many(stride, n) if stride else many(kernel, n)
    windows = [d * (k - 1) + 1 for d, k in zip(many(dilation, n), kernel)]
    made = list(zip([b.dim(x, i - n) for i in range(n)], windows, stride, many(padding, n), ends))
    return made if all(isinstance(s, int) for row in made for s in row) else None


def _beyond(sizes):
    """How many places behind the padding the last windows of a pool with ceil_mode reach."""
    return [max((count - 1) * step + window - size - 2 * pad, 0) for size, window, step, pad, count in sizes]


def _max_pool(n, with_indices):
    def translate(b, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        dilations, pads = many(dilation, n), many(padding, n)
        sizes = _sizes(b, self, n, kernel_size, stride, pads, dilations)
        ends = [p + q for p, q in zip(pads, _beyond(sizes))] if ceil_mode and sizes else []
        if ends and all(p < k for p, k in zip(ends, many(kernel_size, n))):  # what runtimes allow
            pads, ceil_mode = [*pads, *ends], False

        def run(x):
            x = x if x.dtype.is_floating_point else b.to(x, tessera.float64)
            wanted = 2 if with_indices else 1
            made = _pool(b, "MaxPool", x, n, kernel_size, stride, pads, ceil_mode, wanted, dilations=dilations)
            return (made[0], _in_image(b, x, made[1], n)) if with_indices else made

        return batched(b, self, n, run)

    return translate


def _in_image(b, x, at, n):
    """Places within an image, of places within the batch."""
    size = b.reduce("ReduceProd", b.slice(b.Shape(x), 0, 2, 2 + n), None)
    return b.Mod(at, size)


def _average_pool(n):
    def translate(b, self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
                  divisor_override=None):  # fmt: skip
        whole = divisor_override is not None or count_include_pad
        kernel, pads = many(kernel_size, n), many(padding, n)
        known = _sizes(b, self, n, kernel, stride, pads)
        if ceil_mode and not known and any(pads) and whole:
            raise NotImplementedError("avg_pool with ceil_mode and padding of images whose sizes may differ")
        beyond, factors = [0] * n, []
        if ceil_mode and known:
            beyond = _beyond(known)
            if divisor_override is None:
                factors = [_shares(*row, whole) for row in known]
        apart = any(beyond) or (any(pads) and whole and (ceil_mode or b.opset >= 19))  # runtimes differ about these

        def run(x):
            if not apart:
                made = _pool(b, "AveragePool", x, n, kernel, stride, pads, ceil_mode, count_include_pad=int(whole))
            else:
                padded = b.op("Pad", x, b.ints([0, 0, *pads, 0, 0, *[p + q for p, q in zip(pads, beyond)]]))
                padded = b.Max(padded, b.value(-math.inf, self.dtype))  # or runtimes join the two, and count amiss
                made = _pool(b, "AveragePool", padded, n, kernel, stride, 0, ceil_mode and not known)
                for i, shares in enumerate(factors):
                    if any(f != 1 for f in shares):
                        made = made * b.reshape(b.const(shares, self.dtype), [-1] + [1] * (n - 1 - i))
            if divisor_override is not None:
                made = made * (math.prod(kernel) / divisor_override)
            return made

        return batched(b, self, n, run)

    return translate


def _shares(size, kernel, step, pad, count, whole):
    """By how much a mean of `kernel` places, zeros where there are none, is too small for each window."""
    first, last = (-pad, size + pad) if whole else (0, size)
    begins = [i * step - pad for i in range(count)]
    return [kernel / max(min(i + kernel, last) - max(i, first), 1) for i in begins]


def _adaptive(n, op, reduction):
    def translate(b, self, output_size):
        sizes = many(output_size, n)

        def run(x):
            if all(s == 1 for s in sizes):
                return b.reduce(reduction, x, range(-n, 0), True)
            before = [b.dim(self, i - n) for i in range(n)]
            if any(isinstance(s, Value) for s in before):
                raise NotImplementedError("adaptive pooling to more than one place, of images whose sizes may differ")
            if all(p % s == 0 for p, s in zip(before, sizes)):
                kernel = [p // s for p, s in zip(before, sizes)]
                return b.op(op, x, kernel_shape=kernel, strides=kernel)
            for i, (p, s) in enumerate(zip(before, sizes)):
                if p != s:
                    x = _areas(b, x, i - n, p, s, reduction)
            return x

        return batched(b, self, n, run)

    return translate


def _areas(b, x, axis, before, after, reduction):
    """A dimension in `after` areas as equal as may be."""
    areas = [(i * before // after, -(-(i + 1) * before // after)) for i in range(after)]
    parts = [b.reduce(reduction, b.slice(x, axis, p, q), [axis], True) for p, q in areas]
    return b.op("Concat", *parts, axis=axis)


def _adaptive_max(n):
    most = _adaptive(n, "MaxPool", "ReduceMax")

    def translate(b, self, output_size):
        before, sizes = [b.dim(self, i - n) for i in range(n)], many(output_size, n)
        if any(isinstance(p, Value) or p % s for p, s in zip(before, sizes)):
            return most(b, self, output_size), None
        return _max_pool(n, True)(b, self, [p // s for p, s in zip(before, sizes)])

    return translate


for _n in (1, 2, 3):
    TABLE[f"aten::max_pool{_n}d"] = _max_pool(_n, False)
    TABLE[f"aten::max_pool{_n}d_with_indices"] = _max_pool(_n, True)
    TABLE[f"aten::avg_pool{_n}d"] = _average_pool(_n)
    TABLE[f"aten::adaptive_avg_pool{_n}d"] = TABLE[f"aten::_adaptive_avg_pool{_n}d"] = _adaptive(
        _n, "AveragePool", "ReduceMean"
    )
    TABLE[f"aten::adaptive_max_pool{_n}d"] = _adaptive_max(_n)


@aten("max_unpool2d max_unpool3d")
def max_unpool(b, self, indices, output_size, stride=None, padding=None):
    n = len(output_size)
    (*lead,) = b.dims(self)[:-n]
    total = math.prod(output_size)
    zeros = b.full([*lead, total], 0, self.dtype)
    flat = lambda x: b.op("Reshape", x, b.ints([*lead, -1]))  # noqa: E731
    made = b.op("ScatterElements", zeros, flat(indices), flat(self), axis=-1)
    return b.op("Reshape", made, b.ints([*lead, *output_size]))


# --- resampling ---


def _resize(b, x, output_size, scales, **attrs):
    n = x.rank - 2
    out = b.out
    scales = None if scales is None or any(s is None for s in scales) else [float(s) for s in scales]
    known = isinstance(out, tessera.Tensor) and all(isinstance(s, int) for s in tuple(out.shape)[2:])
    if scales and (output_size is None or not known):
        return b.op("Resize", x, None, b.const([1.0, 1.0, *scales]), **attrs)
    if known:
        output_size = list(out.shape)[2:]
    if scales and isinstance(b.dim(x, -1), int) and not attrs.get("antialias"):
        fits = [math.floor(b.dim(x, i - n) * s) for i, s in enumerate(scales) if isinstance(b.dim(x, i - n), int)]
        if fits == list(output_size):
            return b.op("Resize", x, None, b.const([1.0, 1.0, *scales]), **attrs)
    return b.op("Resize", x, None, None, b.ints([*b.dims(x)[:2], *output_size]), **attrs)


def _upsample(mode, exact=False, antialias=False):
    def translate(b, input=None, output_size=None, align_corners=False, scale_factors=None, self=None, **scales):
        x = self if input is None else input
        factors = scale_factors or [
            scales.get(k) for k in ("scales", "scales_d", "scales_h", "scales_w") if k in scales
        ]
        attrs = {"mode": mode}
        if mode == "nearest":
            attrs["coordinate_transformation_mode"] = "half_pixel" if exact else "asymmetric"
            attrs["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
        else:
            attrs["coordinate_transformation_mode"] = "align_corners" if align_corners else "half_pixel"
        if mode == "cubic":
            attrs["cubic_coeff_a"] = -0.5 if antialias else -0.75
        if antialias:
            if b.opset < 18:
                raise NotImplementedError(f"interpolate with antialias needs opset_version 18, not {b.opset}")
            attrs["antialias"] = attrs["exclude_outside"] = 1
        return _resize(b, x, output_size, factors or None, **attrs)

    translate.takes_all = True
    return translate


for _n in (1, 2, 3):
    TABLE[f"aten::upsample_nearest{_n}d"] = _upsample("nearest")
    TABLE[f"aten::_upsample_nearest_exact{_n}d"] = _upsample("nearest", True)
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    TABLE["aten::" + _name] = _upsample("linear")
TABLE["aten::upsample_bicubic2d"] = _upsample("cubic")
TABLE["aten::_upsample_bilinear2d_aa"] = _upsample("linear", antialias=True)
TABLE["aten::_upsample_bicubic2d_aa"] = _upsample("cubic", antialias=True)


@aten("_resample")
def resample(b, self, output_size, steps, mode, align_corners):
    """This library's own operator: mode nearest, nearest-exact, linear, cubic, the last two with antialiasing."""
    kind = ("nearest", "nearest", "linear", "cubic", "linear", "cubic")[mode]
    scales = [1 / s for s in steps] if steps and all(steps) else None
    return _upsample(kind, mode == 1, mode > 3)(b, self, list(output_size)[2:], align_corners, scales)


_SAMPLES = {0: ("bilinear", "linear"), 1: ("nearest", "nearest"), 2: ("bicubic", "cubic")}


@aten("grid_sampler grid_sampler_2d grid_sampler_3d")
def grid_sampler(b, input, grid, interpolation_mode=0, padding_mode=0, align_corners=False):
    if b.opset < (16 if input.rank == 4 else 20):
        raise NotImplementedError(f"grid_sample of {input.rank - 2} dimensions needs opset_version "
                                  f"{16 if input.rank == 4 else 20}, not {b.opset}")  # fmt: skip
    return b.op("GridSample", input, grid, mode=_SAMPLES[interpolation_mode][b.opset >= 20],
                padding_mode=("zeros", "border", "reflection")[padding_mode],
                align_corners=int(bool(align_corners)))  # fmt: skip


@aten("affine_grid_generator")
def affine_grid_generator(b, theta, size, align_corners=False):
    spatial = list(size)[2:]
    if any(isinstance(s, Value) for s in spatial):
        raise NotImplementedError("affine_grid of images whose sizes may differ")
    grid = [[]]
    for n in spatial:
        grid = [[*g, _place(i, n, align_corners)] for g in grid for i in range(n)]
    base = b.const([[*g[::-1], 1.0] for g in grid], theta.dtype)  # x before y
    made = b.MatMul(base, b.transpose(theta, [0, 2, 1]))
    return b.op("Reshape", made, b.ints([0, *spatial, len(spatial)]))


def _place(i, n, align_corners):
    if align_corners:
        return 2 * i / (n - 1) - 1 if n > 1 else 0.0
    return (2 * i + 1) / n - 1


# --- quantization ---


@aten("fake_quantize_per_tensor_affine fake_quantize_per_channel_affine")
def fake_quantize(b, self, scale, zero_point, quant_min, quant_max, axis=None):
    limits = {(-128, 127): tessera.int8, (0, 255): tessera.uint8, (0, 127): tessera.uint8, (-127, 127): tessera.int8}
    kind = limits.get((quant_min, quant_max))
    if kind is None:
        raise NotImplementedError(
            f"fake_quantize to the range from {quant_min} to {quant_max}; ONNX has int8 and uint8"
        )
    zero = b.to(zero_point, kind) if isinstance(zero_point, Value) else b.value(int(zero_point), kind)
    scale = b.to(scale, self.dtype) if isinstance(scale, Value) else b.value(float(scale), self.dtype)
    made = b.op("QuantizeLinear", self, scale, zero, axis=axis, dtype=kind)
    if (quant_min, quant_max) in ((0, 127), (-127, 127)):
        made = b.Clip(made, quant_min, quant_max)
    return b.op("DequantizeLinear", made, scale, zero, axis=axis, dtype=self.dtype)
