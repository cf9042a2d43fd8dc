"""Convolution layers."""

from tessera.nn import functional as F

from ._declared import layer
from ._parts import lazy_parameters
from .lazy import InferredMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


_EACH = (None, _single, _pair, _triple)
_OPERATORS = (None, "conv1d", "conv2d", "conv3d")
_TRANSPOSED = (None, "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def _sizes(n, value):
    """One number for each of n dims, or the name of a padding."""
    return value if isinstance(value, str) else _EACH[n](value)


@layer(
    "in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias, "
    "padding_mode, device=None, dtype=None",
    shows="in_channels out_channels kernel_size= stride= padding=? dilation=? output_padding=?0 groups=? bias=? "
    "padding_mode=?",
    then="self._settle()",
    weight="self._weight_shape() ~ fan_in",
    bias="(out_channels,) if bias ~ weight_fan_in",
)
class _ConvNd(Module):
    def _settle(self):
        """Checks the options; the padding as functional.pad wants it: both sides of each dim, last dim first."""
        groups = self.groups
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % groups or self.out_channels % groups:
            wrong = "in_channels" if self.in_channels % groups else "out_channels"
            raise ValueError(f"{wrong} must be divisible by groups")
        padding, same = self.padding, self.padding == "same"
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ['same', 'valid']")
        if same and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        mode = self.padding_mode
        if mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{mode}'")
        if isinstance(padding, str):
            whole = [d * (k - 1) if same else 0 for d, k in zip(self.dilation, self.kernel_size)]
            sides = [side for total in reversed(whole) for side in (total // 2, total - total // 2)]
        else:
            sides = _reverse_repeat_tuple(padding, 2)
        self._reversed_padding_repeated_twice = sides

    def _weight_shape(self):
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * len(self.kernel_size)
        convolve = getattr(F, _OPERATORS[len(self.kernel_size)])
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)


_convolution = layer(
    "in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, "
    "padding_mode='zeros', device=None, dtype=None",
    "self._conv_forward(input, weight, bias)",
    base="in_channels, out_channels, *(_sizes(self._dims, v) for v in (kernel_size, stride, padding, dilation)), "
    "False, (0,) * self._dims, groups, bias, padding_mode, device, dtype",
)


@_convolution
class Conv1d(_ConvNd):
    """Cross-correlation of (N, C, L) or (C, L) with weight (out_channels, in_channels / groups, k).

    Output length floor((L + 2 padding - dilation (k - 1) - 1) / stride + 1). padding may be 'same' (stride 1 only) or
    'valid'.
    """

    _dims = 1


@_convolution
class Conv2d(_ConvNd):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with weight (out_channels, in_channels / groups, kh, kw); see
    Conv1d for sizes.
    """

    _dims = 2


@_convolution
class Conv3d(_ConvNd):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with weight (out_channels, in_channels / groups, kd, kh,
    kw); see Conv1d for sizes.
    """

    _dims = 3


class _ConvTransposeNd(_ConvNd):
    def _settle(self):
        if self.padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {self.__class__.__name__}')
        super()._settle()

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """The output padding that gives `output_size`. ValueError if none in [0, stride) does."""
        if output_size is None:
            return _single(self.output_padding)
        batched = input.dim() == num_spatial_dims + 2
        skip = 2 if batched else 1
        if len(output_size) == skip + num_spatial_dims:
            output_size = output_size[skip:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have {num_spatial_dims} "
                f"or {skip + num_spatial_dims} "
                f"elements (got {len(output_size)})"
            )
        low = []
        for d in range(num_spatial_dims):
            dil = 1 if dilation is None else dilation[d]
            low.append((input.size(d + skip) - 1) * stride[d] - 2 * padding[d] + dil * (kernel_size[d] - 1) + 1)
        high = [m + stride[d] - 1 for d, m in enumerate(low)]
        for size, lo, hi in zip(output_size, low, high):
            if size < lo or size > hi:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from {low} to {high} (for an "
                    f"input of {input.size()[2:]})"
                )
        return [size - lo for size, lo in zip(output_size, low)]

    def forward(self, input, output_size=None):
        n = len(self.kernel_size)
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{n}d")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, n, self.dilation)
        convolve = getattr(F, _TRANSPOSED[n])
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, dilation=self.dilation, groups=self.groups
        )


_transposed_convolution = layer(
    "in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, "
    "padding_mode='zeros', device=None, dtype=None",
    base="in_channels, out_channels, *(_sizes(self._dims, v) for v in (kernel_size, stride, padding, dilation)), "
    "True, _sizes(self._dims, output_padding), groups, bias, padding_mode, device, dtype",
)


@_transposed_convolution
class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of Conv1d: weight (in_channels, out_channels / groups, k), output length (L - 1) stride - 2 padding +
    dilation (k - 1) + output_padding + 1.
    """

    _dims = 1


@_transposed_convolution
class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of Conv2d: weight (in_channels, out_channels / groups, kh, kw); see ConvTranspose1d for sizes."""

    _dims = 2


@_transposed_convolution
class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of Conv3d: weight (in_channels, out_channels / groups, kd, kh, kw); see ConvTranspose1d for sizes."""

    _dims = 3


class _LazyConvXdMixin(InferredMixin):
    _unknown = "in_channels"

    def initialize_parameters(self, input, *args, **kwargs):
        """Takes in_channels from the input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self._materialize()

    def _get_in_channels(self, input):
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {self.__class__.__name__}, but got "
                f"input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self):
        return len(self.kernel_size)

    def _make_lazy(self, out_channels, bias, device, dtype):
        self.out_channels = out_channels
        lazy_parameters(self, device, dtype, "weight", *["bias"] * bool(bias))


# No channels and no bias at first, so that nothing is drawn.
def _lazy(plain, options, base):
    class Lazy(_LazyConvXdMixin, plain):
        cls_to_become = plain

    Lazy.__name__ = Lazy.__qualname__ = "Lazy" + plain.__name__
    Lazy.__doc__ = f"A {plain.__name__} whose in_channels comes from the first input."
    return layer(options, base=base, then="self._make_lazy(out_channels, bias, device, dtype)")(Lazy)


def _lazy_conv(plain):
    return _lazy(
        plain,
        "out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', "
        "device=None, dtype=None",
        "0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype",
    )


def _lazy_conv_transpose(plain):
    return _lazy(
        plain,
        "out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, "
        "padding_mode='zeros', device=None, dtype=None",
        "0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype",
    )


LazyConv1d = _lazy_conv(Conv1d)
LazyConv2d = _lazy_conv(Conv2d)
LazyConv3d = _lazy_conv(Conv3d)
LazyConvTranspose1d = _lazy_conv_transpose(ConvTranspose1d)
LazyConvTranspose2d = _lazy_conv_transpose(ConvTranspose2d)
LazyConvTranspose3d = _lazy_conv_transpose(ConvTranspose3d)
