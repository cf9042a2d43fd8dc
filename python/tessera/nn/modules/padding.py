"""Padding layers. `padding` is one number for all sides or (left, right, top, bottom, front, back), the last dim
first.
"""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module
from .utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6)


@layer("padding", "F.pad(input, padding, self._mode)", "padding", sets={"padding": "self._sides(padding)"})
class _PadNd(Module):
    _mode = "constant"
    _sides = staticmethod(_pair)


class _CircularPadNd(_PadNd):
    _mode = "circular"
    _dims = ()

    def _check_input_dim(self, input):
        if input.dim() not in self._dims:
            raise ValueError(f"expected {self._dims[0]}D or {self._dims[1]}D input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Continues (N, C, L) or (C, L) periodically."""

    _dims = (2, 3)


class CircularPad2d(_CircularPadNd):
    """Continues (N, C, H, W) or (C, H, W) periodically."""

    _sides = staticmethod(_quadruple)
    _dims = (3, 4)


class CircularPad3d(_CircularPadNd):
    """Continues (N, C, D, H, W) or (C, D, H, W) periodically."""

    _sides = staticmethod(_sextuple)
    _dims = (4, 5)


@layer("padding, value", "F.pad(input, padding, 'constant', value)", "padding= value=", base="padding")
class _ConstantPadNd(_PadNd):
    pass


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dim with a value."""


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dims with a value."""

    _sides = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dims with a value."""

    _sides = staticmethod(_sextuple)


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors (N, C, L) or (C, L) at its borders; the padding is less than the size."""


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors (N, C, H, W) or (C, H, W) at its borders; the padding is less than the size."""

    _sides = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors (N, C, D, H, W) or (C, D, H, W) at its borders; the padding is less than the size."""

    _sides = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the border values of (N, C, L) or (C, L)."""


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the border values of (N, C, H, W) or (C, H, W)."""

    _sides = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the border values of (N, C, D, H, W) or (C, D, H, W)."""

    _sides = staticmethod(_sextuple)


@layer("padding", shows="padding", base="padding, 0.0")
class ZeroPad1d(ConstantPad1d):
    """Pads the last dim with zeros."""


@layer("padding", shows="padding", base="padding, 0.0")
class ZeroPad2d(ConstantPad2d):
    """Pads the last two dims with zeros."""


@layer("padding", shows="padding", base="padding, 0.0")
class ZeroPad3d(ConstantPad3d):
    """Pads the last three dims with zeros."""
