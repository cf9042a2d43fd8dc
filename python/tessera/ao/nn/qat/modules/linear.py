"""Linear for training with quantization in mind."""

from tessera import nn
from tessera.nn import functional as F

from ...intrinsic.modules.fused import LinearReLU
from ._base import Rounded, as_linear, built

__all__ = ["Linear"]


class Linear(Rounded, nn.Linear):
    """A Linear whose weight `qconfig.weight` rounds. AssertionError without a qconfig."""

    _FLOAT_MODULE = nn.Linear
    _CONTAINERS = (LinearReLU, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _describe = staticmethod(as_linear)

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = built(type(self), qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input):
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)
