"""Linear with ReLU that rounds its input at each call."""

import tessera
from tessera._root.held_classes import METHODS

from .....quantized.dynamic.modules.linear import Linear
from ....modules import fused

__all__ = ["LinearReLU"]


class LinearReLU(Linear):
    """relu of a dynamic Linear."""

    _FLOAT_MODULE, _operator = fused.LinearReLU, "linear_relu"

    def __init__(self, in_features, out_features, bias=True, dtype=tessera.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        return super().forward(x).relu()

    @classmethod
    def from_reference(cls, ref_qlinear_relu):
        """Of a reference layer with ReLU behind it."""
        return super().from_reference(ref_qlinear_relu[0])


METHODS[LinearReLU, "forward"] = METHODS[Linear, "forward"]
