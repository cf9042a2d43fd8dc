"""Convolution layers."""

from tessera.nn import functional as F

from ._parts import described, draw_affine, lazy_parameters, new_parameters
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


def _check(in_channels, out_channels, groups, padding, stride, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ['same', 'valid']")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'")


class _ConvNd(Module):
    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        super().__init__()
        _check(in_channels, out_channels, groups, padding, stride, padding_mode)
        vars(self).update(
            in_channels=in_channels,
            out_channels=out_channels,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=transposed,
            output_padding=output_padding,
            groups=groups,
            padding_mode=padding_mode,
        )
        # the padding as functional.pad wants it: both sides of each dim, last dim first
        if isinstance(padding, str):
            self._reversed_padding_repeated_twice = [0, 0] * len(kernel_size)
            if padding == "same":
                for d, k, i in zip(dilation, kernel_size, range(len(kernel_size) - 1, -1, -1)):
                    total = d * (k - 1)
                    self._reversed_padding_repeated_twice[2 * i] = total // 2
                    self._reversed_padding_repeated_twice[2 * i + 1] = total - total // 2
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        new_parameters(self, device, dtype, weight=self._weight_shape(), bias=(out_channels,) if bias else None)
        self.reset_parameters()

    def _weight_shape(self):
        first, second = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self):
        """Draws new weights, uniform in +-1 / sqrt(fan_in)."""
        draw_affine(self.weight, self.bias)

    def extra_repr(self):
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        return described(
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}",
            {**vars(self), "bias": self.bias is not None},
            padding=zeros,
            dilation=ones,
            output_padding=zeros,
            groups=1,
            bias=True,
            padding_mode="zeros",
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")

    def _conv(self, op, zero, input, weight, bias):
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return op(input, weight, bias, self.stride, zero, self.dilation, self.groups)
        return op(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_ConvNd):
    """Cross-correlation of (N, C, L) or (C, L) with weight (out_channels, in_channels / groups, k).

    Output length floor((L + 2 padding - dilation (k - 1) - 1) / stride + 1). padding may be 'same' (stride 1 only) or
    'valid'.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        padding = padding if isinstance(padding, str) else _single(padding)
        super().__init__(
            in_channels,
            out_channels,
            _single(kernel_size),
            _single(stride),
            padding,
            _single(dilation),
            False,
            _single(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        return self._conv(F.conv1d, (0,), input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with weight (out_channels, in_channels / groups, kh, kw); see
    Conv1d for sizes.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        padding = padding if isinstance(padding, str) else _pair(padding)
        super().__init__(
            in_channels,
            out_channels,
            _pair(kernel_size),
            _pair(stride),
            padding,
            _pair(dilation),
            False,
            _pair(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        return self._conv(F.conv2d, (0, 0), input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with weight (out_channels, in_channels / groups, kd, kh,
    kw); see Conv1d for sizes.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        padding = padding if isinstance(padding, str) else _triple(padding)
        super().__init__(
            in_channels,
            out_channels,
            _triple(kernel_size),
            _triple(stride),
            padding,
            _triple(dilation),
            False,
            _triple(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        return self._conv(F.conv3d, (0, 0, 0), input, weight, bias)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {self.__class__.__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

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

    def _transposed(self, op, n, input, output_size):
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{n}d")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, n, self.dilation)
        return op(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of Conv1d: weight (in_channels, out_channels / groups, k), output length (L - 1) stride - 2 padding +
    dilation (k - 1) + output_padding + 1.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            _single(kernel_size),
            _single(stride),
            _single(padding),
            _single(dilation),
            True,
            _single(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input, output_size=None):
        return self._transposed(F.conv_transpose1d, 1, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of Conv2d: weight (in_channels, out_channels / groups, kh, kw); see ConvTranspose1d for sizes."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            _pair(kernel_size),
            _pair(stride),
            _pair(padding),
            _pair(dilation),
            True,
            _pair(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input, output_size=None):
        return self._transposed(F.conv_transpose2d, 2, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of Conv3d: weight (in_channels, out_channels / groups, kd, kh, kw); see ConvTranspose1d for sizes."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        super().__init__(
            in_channels,
            out_channels,
            _triple(kernel_size),
            _triple(stride),
            _triple(padding),
            _triple(dilation),
            True,
            _triple(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input, output_size=None):
        return self._transposed(F.conv_transpose3d, 3, input, output_size)


class _LazyConvXdMixin(InferredMixin):
    _unknown = "in_channels"

    def initialize_parameters(self, input, *args, **kwargs):
        """Takes in_channels from the input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self._materialize(weight=self._weight_shape(), bias=(self.out_channels,))

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


def _lazy_conv(plain):
    class LazyConv(_LazyConvXdMixin, plain):
        cls_to_become = plain

        def __init__(
            self,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            dilation=1,
            groups=1,
            bias=True,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            # no channels and no bias yet, so that nothing is drawn
            super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
            self._make_lazy(out_channels, bias, device, dtype)

    return _named(LazyConv, plain)


def _lazy_conv_transpose(plain):
    class LazyConvTranspose(_LazyConvXdMixin, plain):
        cls_to_become = plain

        def __init__(
            self,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            output_padding=0,
            groups=1,
            bias=True,
            dilation=1,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            super().__init__(
                0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
            )
            self._make_lazy(out_channels, bias, device, dtype)

    return _named(LazyConvTranspose, plain)


def _named(cls, plain):
    cls.__name__ = cls.__qualname__ = "Lazy" + plain.__name__
    cls.__doc__ = f"A {plain.__name__} whose in_channels comes from the first input."
    return cls


LazyConv1d = _lazy_conv(Conv1d)
LazyConv2d = _lazy_conv(Conv2d)
LazyConv3d = _lazy_conv(Conv3d)
LazyConvTranspose1d = _lazy_conv_transpose(ConvTranspose1d)
LazyConvTranspose2d = _lazy_conv_transpose(ConvTranspose2d)
LazyConvTranspose3d = _lazy_conv_transpose(ConvTranspose3d)
