"""Attention on integers."""

import tessera

from ...quantizable.modules import activation

__all__ = ["MultiheadAttention"]


class MultiheadAttention(activation.MultiheadAttention):
    """A quantizable MultiheadAttention whose projections are quantized; from_observed() makes it."""

    _FLOAT_MODULE = activation.MultiheadAttention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        """NotImplementedError: it is made of an observed one."""
        raise NotImplementedError("from_float: expected an observed attention; prepare() makes one of a float one "
                                  f"(got {type(other).__name__})")  # fmt: skip

    @classmethod
    def from_observed(cls, other):
        """Of a quantizable MultiheadAttention whose parts were observed."""
        made = tessera.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
        made.__class__ = cls
        return made
