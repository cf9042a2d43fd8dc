"""Dropout on integers."""

from tessera import nn

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """Gives its input: nothing is dropped in inference."""

    def forward(self, input):
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float Dropout."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """Of a float Dropout; scale and zero point stay those of the input."""
        return cls(mod.p, mod.inplace)
