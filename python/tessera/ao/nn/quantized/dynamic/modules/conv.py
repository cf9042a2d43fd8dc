"""Convolutions that round their input at each call."""

import warnings

from tessera._root.held_classes import METHODS

from ...modules import conv
from ...._quantized_ops import operators

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    _reduce_range = True

    def forward(self, input, reduce_range=True):
        if len(input.shape) != self._dims + 2:
            raise ValueError(f"expected an input of {self._dims + 2} dims, but got {len(input.shape)}")
        return getattr(operators, f"{self._operator}_dynamic")(self._edged(input), self._packed_params,
                                                               reduce_range and self._reduce_range)  # fmt: skip

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float convolution with a qconfig; use_precomputed_fake_quant changes nothing here."""
        if use_precomputed_fake_quant:
            warnings.warn("a dynamic convolution finds the scales of its weight anew", stacklevel=2)
        return cls.get_qconv(mod, None)


def _made(name):
    return type(name, (_Dynamic, getattr(conv, name)), {
        "__module__": __name__,
        "__doc__": f"{name} of floats, rounded to bytes by their own range, with qint8 weights. ValueError for inputs "
                   "of other ranks.",
    })  # fmt: skip


class Conv1d(_Dynamic, conv.Conv1d):
    """Conv1d of floats, rounded to bytes by their own range (to 7 bits of it by reduce_range, where forward() says
    nothing else), with qint8 weights. ValueError for inputs of other ranks.
    """

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None, reduce_range=True,
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                         device, dtype)  # fmt: skip
        self._reduce_range = reduce_range


Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(_made, __all__[1:])
METHODS[_Dynamic, "forward"] = conv.script(
    "input: Tensor, reduce_range: bool = True", "{op}_dynamic(input, self._packed_params, reduce_range)"
)
