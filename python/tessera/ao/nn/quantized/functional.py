"""Functions of quantized tensors."""

import tessera
from tessera.nn import functional as F

from .._quantized_ops import operators

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d",
    "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d",
    "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _needs(input, name):
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")
    return input


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Means of windows (kH, kW) of a quantized (N, C, H, W), with its scale. ValueError for floats."""
    return F.avg_pool2d(_needs(input, "avg_pool2d"), kernel_size, stride, padding, ceil_mode, count_include_pad,
                        divisor_override)  # fmt: skip


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Means of windows (kD, kH, kW) of a quantized (N, C, D, H, W), with its scale. ValueError for floats."""
    return F.avg_pool3d(_needs(input, "avg_pool3d"), kernel_size, stride, padding, ceil_mode, count_include_pad,
                        divisor_override)  # fmt: skip


def adaptive_avg_pool2d(input, output_size):
    """Means of a quantized (N, C, H, W) down to output_size, with its scale. ValueError for floats."""
    return F.adaptive_avg_pool2d(_needs(input, "functional.adaptive_avg_pool2d"), output_size)


def adaptive_avg_pool3d(input, output_size):
    """Means of a quantized (N, C, D, H, W) down to output_size, with its scale. ValueError for floats."""
    return F.adaptive_avg_pool3d(_needs(input, "functional.adaptive_avg_pool3d"), output_size)


def _conv_of(dims, shape):
    name = f"conv{dims}d"

    def conv(
        input, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", scale=1.0, zero_point=0,
        dtype=tessera.quint8
    ):  # fmt: skip
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        for what, got, able in (
            ("activation tensor", input.dtype, tessera.quint8),
            ("weight tensor", weight.dtype, tessera.qint8),
            ("result", dtype, tessera.quint8),
        ):
            if got != able:
                raise NotImplementedError(f"Only {able} is supported for {what}! Got {got}")
        if input.dim() != dims + 2:
            raise ValueError(f"Input shape must have {dims + 2} dims, but got {input.dim()}")
        packed = getattr(operators, f"{name}_prepack")(weight, bias, stride, padding, dilation, groups)
        return getattr(operators, name)(input, packed, scale, zero_point)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""A convolution of a quint8 {shape} with a qint8 weight, quantized by scale and zero_point.

    NotImplementedError for other dtypes and for a padding_mode other than "zeros"."""
    return conv


conv1d, conv2d, conv3d = map(_conv_of, (1, 2, 3), ("(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"))


def linear(input, weight, bias=None, scale=None, zero_point=None):
    """input W^T + b of a quantized input (*, in) and a qint8 weight (out, in); default scale: that of the input."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return operators.linear(input, operators.linear_prepack(weight, bias), scale, zero_point)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """A quantized tensor at another size, with its scale. ValueError for floats."""
    return F.interpolate(_needs(input, "interpolate"), size, scale_factor, mode, align_corners)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The greatest of windows of a quantized (N, C, L). NotImplementedError with return_indices."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The greatest of windows of a quantized (N, C, H, W). NotImplementedError with return_indices."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def celu(input, scale, zero_point, alpha=1.0):
    """CELU, quantized by scale and zero_point. ValueError for floats."""
    return operators.celu(_needs(input, "celu"), scale, zero_point, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False, scale=None, zero_point=None):
    """LeakyReLU, quantized by scale and zero_point; without them, with the input's."""
    if (scale is None) != (zero_point is None):
        raise AssertionError("leaky_relu: expected both of scale and zero_point, or none")
    if scale is None:
        return F.leaky_relu(input, negative_slope, inplace)
    return operators.leaky_relu(input, negative_slope, inplace, scale, zero_point)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Numbers brought into [min_val, max_val], with the input's scale. ValueError for floats."""
    return F.hardtanh(_needs(input, "hardtanh"), min_val, max_val, inplace)


def hardswish(input, scale, zero_point):
    """Hardswish, quantized by scale and zero_point. ValueError for floats."""
    return operators.hardswish(_needs(input, "hardswish"), scale, zero_point)


def threshold(input, threshold, value):
    """`value` where the input is not above `threshold`. ValueError for floats or without both."""
    _needs(input, "threshold")
    if threshold is None or value is None:
        raise ValueError("Input to 'threshold' must be specified!")
    return operators.threshold(input, threshold, value)


def elu(input, scale, zero_point, alpha=1.0):
    """ELU, quantized by scale and zero_point. ValueError for floats."""
    return operators.elu(_needs(input, "elu"), scale, zero_point, alpha)


def hardsigmoid(input, inplace=False):
    """Hardsigmoid, quantized for [0, 1): scale 1 / 256. ValueError for floats."""
    x = _needs(input, "hardsigmoid")
    made = tessera.quantize_per_tensor(F.hardsigmoid(x.dequantize()), 1 / 256, 0 if x.dtype == tessera.quint8 else -128,
                                       x.dtype)  # fmt: skip
    return x.copy_(made) if inplace else made


def clamp(input, min_, max_):
    """Numbers brought into [min_, max_], with the input's scale. ValueError for floats."""
    return operators.clamp(_needs(input, "clamp"), min_, max_)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate() by its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate() between four neighbours, with aligned corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate() by the nearest element."""
    return interpolate(input, size, scale_factor, mode="nearest")
