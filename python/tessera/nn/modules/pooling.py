"""Pooling layers."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module
from .utils import _ntuple, _single

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
]


_STRIDE = {"stride": "kernel_size if stride is None else stride"}


@layer(
    "kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False",
    shows="kernel_size= stride= padding= dilation= ceil_mode=",
    sets=_STRIDE,
)
class _MaxPoolNd(Module):
    pass


@layer(
    computes="F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, "
    "return_indices=return_indices)"
)
class MaxPool1d(_MaxPoolNd):
    """Maximum over windows of (N, C, L) or (C, L), padded with -inf; return_indices: also the positions, for
    MaxUnpool1d.
    """


@layer(
    computes="F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, "
    "return_indices=return_indices)"
)
class MaxPool2d(_MaxPoolNd):
    """Maximum over windows of (N, C, H, W) or (C, H, W), padded with -inf; return_indices: also the positions, for
    MaxUnpool2d.
    """


@layer(
    computes="F.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, "
    "return_indices=return_indices)"
)
class MaxPool3d(_MaxPoolNd):
    """Maximum over windows of (N, C, D, H, W) or (C, D, H, W), padded with -inf; return_indices: also the positions,
    for MaxUnpool3d.
    """


@layer(
    "kernel_size, stride=None, padding=0",
    shows="kernel_size= stride= padding=",
    sets={
        "kernel_size": "_ntuple(self._dims)(kernel_size)",
        "stride": "_ntuple(self._dims)(kernel_size if stride is None else stride)",
        "padding": "_ntuple(self._dims)(padding)",
    },
)
class _MaxUnpoolNd(Module):
    _dims = 0


@layer(
    computes="input, indices, output_size=None -> "
    "F.max_unpool1d(input, indices, kernel_size, stride, padding, output_size)"
)
class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the values of a MaxPool1d back at the positions `indices`; zeros elsewhere."""

    _dims = 1


@layer(
    computes="input, indices, output_size=None -> "
    "F.max_unpool2d(input, indices, kernel_size, stride, padding, output_size)"
)
class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the values of a MaxPool2d back at the positions `indices`; zeros elsewhere."""

    _dims = 2


@layer(
    computes="input, indices, output_size=None -> "
    "F.max_unpool3d(input, indices, kernel_size, stride, padding, output_size)"
)
class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the values of a MaxPool3d back at the positions `indices`; zeros elsewhere."""

    _dims = 3


@layer(shows="kernel_size= stride= padding=")
class _AvgPoolNd(Module):
    pass


@layer(
    "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True",
    "F.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)",
    sets={
        "kernel_size": "_single(kernel_size)",
        "stride": "_single(kernel_size if stride is None else stride)",
        "padding": "_single(padding)",
    },
)
class AvgPool1d(_AvgPoolNd):
    """Mean over windows of (N, C, L) or (C, L); count_include_pad: zero padding counts as elements."""


@layer(
    "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None",
    sets=_STRIDE,
)
class _AvgPoolDivisor(_AvgPoolNd):
    pass


@layer(computes="F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)")
class AvgPool2d(_AvgPoolDivisor):
    """Mean over windows of (N, C, H, W) or (C, H, W); count_include_pad: zero padding counts as elements;
    divisor_override: divides by this instead.
    """


@layer(computes="F.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)")
class AvgPool3d(_AvgPoolDivisor):
    """Mean over windows of (N, C, D, H, W) or (C, D, H, W); see AvgPool2d for the arguments."""

    def __setstate__(self, d):
        super().__setstate__({"padding": 0, "ceil_mode": False, "count_include_pad": True, **d})


@layer(
    "kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None",
    sets={name: f"_each(self, {name})" for name in ("kernel_size", "output_size", "output_ratio")},
    then="self._settle(kernel_size, output_size, output_ratio, _random_samples)",
)
class _FractionalMaxPoolNd(Module):
    _dims = 0

    def _settle(self, kernel_size, size, ratio, samples):
        self.register_buffer("_random_samples", samples)
        if not all(k > 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must greater than zero, but got {kernel_size}")
        if size is None and ratio is None:
            raise ValueError(
                f"FractionalMaxPool{self._dims}d requires specifying either an output size, or a pooling ratio"
            )
        if size is not None and ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")


def _each(pool, value):
    return None if value is None else _ntuple(pool._dims)(value)


@layer(
    computes="F.fractional_max_pool2d(input, kernel_size, output_size, output_ratio, return_indices, "
    "_random_samples=self._random_samples)"
)
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling with random window places (Graham 2014) to output_size or to a share output_ratio of the input's
    size.
    """

    _dims = 2


@layer(
    computes="F.fractional_max_pool3d(input, kernel_size, output_size, output_ratio, return_indices, "
    "_random_samples=self._random_samples)"
)
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """FractionalMaxPool2d with one spatial dim more."""

    _dims = 3


@layer(
    "norm_type, kernel_size, stride=None, ceil_mode=False",
    shows="norm_type= kernel_size= stride= ceil_mode=",
)
class _LPPoolNd(Module):
    pass


@layer(computes="F.lp_pool1d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool1d(_LPPoolNd):
    """(sum of x^p over a window)^(1/p) of (N, C, L) or (C, L), p = norm_type."""


@layer(computes="F.lp_pool2d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool2d(_LPPoolNd):
    """(sum of x^p over a window)^(1/p) of (N, C, H, W) or (C, H, W), p = norm_type."""


@layer(computes="F.lp_pool3d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool3d(_LPPoolNd):
    """(sum of x^p over a window)^(1/p) of (N, C, D, H, W) or (C, D, H, W), p = norm_type."""


@layer("output_size, return_indices=False", shows="output_size=")
class _AdaptiveMaxPoolNd(Module):
    pass


@layer(computes="F.adaptive_max_pool1d(input, output_size, return_indices)")
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over output_size windows that cover (N, C, L) or (C, L)."""


@layer(computes="F.adaptive_max_pool2d(input, output_size, return_indices)")
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over a grid of windows that covers (N, C, H, W) or (C, H, W); None in output_size keeps that dim."""


@layer(computes="F.adaptive_max_pool3d(input, output_size, return_indices)")
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over a grid of windows that covers (N, C, D, H, W) or (C, D, H, W); None in output_size keeps that
    dim.
    """


@layer("output_size", shows="output_size=")
class _AdaptiveAvgPoolNd(Module):
    pass


@layer(computes="F.adaptive_avg_pool1d(input, output_size)")
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean over output_size windows that cover (N, C, L) or (C, L)."""


@layer(computes="F.adaptive_avg_pool2d(input, output_size)")
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean over a grid of windows that covers (N, C, H, W) or (C, H, W); None in output_size keeps that dim."""


@layer(computes="F.adaptive_avg_pool3d(input, output_size)")
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean over a grid of windows that covers (N, C, D, H, W) or (C, D, H, W); None in output_size keeps that dim."""
