"""Convolutions for training with quantization in mind."""

from tessera import nn

from ...intrinsic.modules import fused
from ._base import Rounded, built

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _Conv(Rounded):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", qconfig=None, device=None, dtype=None
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation,
                         groups=groups, bias=bias, padding_mode=padding_mode, device=device, dtype=dtype)  # fmt: skip
        self.qconfig = built(type(self), qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input):
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)


class Conv1d(_Conv, nn.Conv1d):
    """A Conv1d whose weight `qconfig.weight` rounds. AssertionError without a qconfig."""

    _FLOAT_MODULE = nn.Conv1d
    _CONTAINERS = (fused.ConvReLU1d,)


class Conv2d(_Conv, nn.Conv2d):
    """A Conv2d whose weight `qconfig.weight` rounds. AssertionError without a qconfig."""

    _FLOAT_MODULE = nn.Conv2d
    _CONTAINERS = (fused.ConvReLU2d,)


class Conv3d(_Conv, nn.Conv3d):
    """A Conv3d whose weight `qconfig.weight` rounds. AssertionError without a qconfig."""

    _FLOAT_MODULE = nn.Conv3d
    _CONTAINERS = (fused.ConvReLU3d,)
