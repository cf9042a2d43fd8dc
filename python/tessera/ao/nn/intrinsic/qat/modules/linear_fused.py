"""Linear with batch normalisation for training with quantization in mind."""

from tessera import nn
from tessera.nn import functional as F
from tessera.nn.utils.fusion import fuse_linear_bn_weights

from ....qat.modules._base import as_linear, built
from ...modules import fused
from .conv_fused import Normalised

__all__ = ["LinearBn1d"]


class LinearBn1d(Normalised, nn.Linear):
    """Linear and BatchNorm1d with a rounded weight."""

    _FLOAT_MODULE, _FLOAT_LAYER = fused.LinearBn1d, nn.Linear
    _describe = staticmethod(as_linear)

    def __init__(self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        built(type(self), qconfig)
        super().__init__(in_features, out_features, bias)
        self._normalise(nn.BatchNorm1d(out_features, eps, momentum, True, True), qconfig, freeze_bn)

    def _layer(self, input, weight, bias):
        return F.linear(input, weight, bias)

    def folded(self):
        """(weight, bias) with the normalisation folded in."""
        bn = self.bn
        return fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
