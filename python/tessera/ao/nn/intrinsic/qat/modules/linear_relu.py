"""Linear with ReLU for training with quantization in mind."""

from tessera import nn

from ....qat.modules._base import Rectified
from ....qat.modules.linear import Linear
from ...modules import fused

__all__ = ["LinearReLU"]


class LinearReLU(Rectified, Linear):
    """Linear and ReLU with a rounded weight."""

    _FLOAT_MODULE, _FLOAT_LAYER = fused.LinearReLU, nn.Linear

    def __init__(self, in_features, out_features, bias=True, qconfig=None):
        super().__init__(in_features, out_features, bias, qconfig)
