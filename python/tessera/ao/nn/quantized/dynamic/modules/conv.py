"""Convolutions that round their input at each call."""

import warnings

from ...modules import conv
from ...._quantized_ops import operators

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    def forward(self, input, reduce_range=True):
        if len(input.shape) != self._dims + 2:
            raise ValueError(f"expected an input of {self._dims + 2} dims, but got {len(input.shape)}")
        return getattr(operators, f"{self._operator}_dynamic")(self._edged(input), self._packed_params, reduce_range)

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


Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(_made, __all__)
