"""Linear with an activation, on integers."""

import tessera
from tessera._root.held_classes import METHODS

from ...._quantized_ops import operators
from ....quantized.modules.linear import Linear
from ...modules import fused

__all__ = ["LinearLeakyReLU", "LinearReLU", "LinearTanh"]


class LinearReLU(Linear):
    """relu of a quantized Linear."""

    _FLOAT_MODULE, _operator = fused.LinearReLU, "linear_relu"

    def __init__(self, in_features, out_features, bias=True, dtype=tessera.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    @classmethod
    def from_reference(cls, ref_linear_relu, output_scale, output_zero_point):
        """Of a reference layer with ReLU behind it."""
        return super().from_reference(ref_linear_relu, output_scale, output_zero_point)


class _Followed(Linear):
    @classmethod
    def from_reference(cls, ref_mod, output_scale, output_zero_point):
        """Of a reference layer with the activation behind it."""
        return super().from_reference(ref_mod, output_scale, output_zero_point)


class LinearLeakyReLU(_Followed):
    """leaky_relu of a quantized Linear."""

    _FLOAT_MODULE = fused.LinearLeakyReLU

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=tessera.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x):
        return operators.linear_leaky_relu(x, self._packed_of(), self.scale, self.zero_point, self.negative_slope)

    @classmethod
    def _extra(cls, mod):
        return {"negative_slope": mod[1].negative_slope}


class LinearTanh(_Followed):
    """tanh of a quantized Linear."""

    _FLOAT_MODULE, _operator = fused.LinearTanh, "linear_tanh"

    def __init__(self, in_features, out_features, bias=True, dtype=tessera.qint8):
        super().__init__(in_features, out_features, bias, dtype)


METHODS[LinearLeakyReLU, "forward"] = """def forward(self, x: Tensor) -> Tensor:
    return torch.ops.quantized.linear_leaky_relu(x, self._packed_params._packed_params, self.scale, self.zero_point,
                                                 self.negative_slope)
"""
