"""Convolutions with batch normalisation (and ReLU) for training with quantization in mind.

The weight is rounded as it will be after folding: times gamma / running deviation; the outcome is divided by that
factor again before the statistics of the batch are taken.
"""

import tessera
from tessera import nn
from tessera.nn import functional as F
from tessera.nn.utils.fusion import fuse_conv_bn_weights

from ....qat.modules import conv as _qat
from ....qat.modules._base import Rectified, Rounded, as_conv, built
from ...modules import fused

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip


class Normalised(Rounded):
    """A mixin of layers with a batch normalisation `bn` behind them. `freeze_bn`: it uses its running statistics."""

    _rectified = False

    def _normalise(self, bn, qconfig, freeze_bn):
        self.qconfig = built(type(self), qconfig)
        self.bn, self.freeze_bn = bn, freeze_bn if self.training else True
        self.weight_fake_quant = qconfig.weight()
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self):
        """Statistics as at first."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """Statistics as at first, gamma from [0, 1), beta 0."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)

    def update_bn_stats(self):
        """From now on statistics of batches."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        """From now on the running statistics."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode=True):
        """As for any module, but frozen statistics stay frozen."""
        super().train(mode)
        if self.freeze_bn:
            self.bn.training = False
        return self

    def forward(self, input):
        bn = self.bn
        deviation = (bn.running_var + bn.eps).sqrt()
        factor = bn.weight / deviation
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, *[1] * (self.weight.dim() - 1)))
        none = tessera.zeros(factor.shape[0], dtype=input.dtype, device=input.device)
        x = self._layer(input, weight, none)
        x = x / factor.reshape(1, -1, *[1] * (x.dim() - 2))
        if self.bias is not None:
            x = x + self.bias.reshape(1, -1, *[1] * (x.dim() - 2))
        x = bn(x)
        return F.relu(x) if self._rectified else x

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """As of all rounded layers; the normalisation is shared, too."""
        made = super().from_float(mod, use_precomputed_fake_quant)
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(mod[1], name))
        return made

    @classmethod
    def _more(cls, mod):
        return {"eps": mod[1].eps, "momentum": mod[1].momentum}

    def folded(self):
        """(weight, bias) with the normalisation folded in."""
        bn = self.bn
        return fuse_conv_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)

    def to_float(self):
        """The float layer (with ReLU behind it where there is one) with the normalisation folded in."""
        layer = self._FLOAT_LAYER(**{**self._describe(self), "bias": True})
        layer.weight, layer.bias = (nn.Parameter(t.detach()) for t in self.folded())
        made = self._FUSED(layer, nn.ReLU()) if self._rectified else layer
        made.train(self.training)
        return made


class _ConvBn(Normalised):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None,
        padding_mode="zeros", eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None
    ):  # fmt: skip
        built(type(self), qconfig)
        super().__init__(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation,
                         groups=groups, bias=bool(bias), padding_mode=padding_mode)  # fmt: skip
        self._normalise(self._BN(out_channels, eps, momentum, True, True), qconfig, freeze_bn)

    def _layer(self, input, weight, bias):
        return self._conv_forward(input, weight, bias)

    def reset_bn_parameters(self):
        """Statistics as at first, gamma from [0, 1), beta 0, and the convolution's bias as at first."""
        super().reset_bn_parameters()
        if self.bias is not None:
            bound = self.weight[0].numel() ** -0.5
            nn.init.uniform_(self.bias, -bound, bound)


def _classes(n):
    conv, bn = getattr(nn, f"Conv{n}d"), getattr(nn, f"BatchNorm{n}d")
    relu = getattr(fused, f"ConvReLU{n}d")
    common = {"__module__": __name__, "_FLOAT_LAYER": conv, "_BN": bn, "_FUSED": relu}
    plain = {**common, "_FLOAT_MODULE": getattr(fused, f"ConvBn{n}d"),
             "__doc__": f"Conv{n}d and BatchNorm{n}d with a rounded weight."}  # fmt: skip
    rectified = {**common, "_FLOAT_MODULE": getattr(fused, f"ConvBnReLU{n}d"), "_rectified": True,
                 "__doc__": f"Conv{n}d, BatchNorm{n}d and ReLU with a rounded weight."}  # fmt: skip
    first = type(f"ConvBn{n}d", (_ConvBn, conv), plain)
    last = {**common, "_FLOAT_MODULE": relu, "_CONTAINERS": (relu,),
            "__doc__": f"Conv{n}d and ReLU with a rounded weight."}  # fmt: skip
    return (
        first,
        type(f"ConvBnReLU{n}d", (first,), rectified),
        type(f"ConvReLU{n}d", (Rectified, getattr(_qat, f"Conv{n}d")), last),
    )


ConvBn1d, ConvBnReLU1d, ConvReLU1d = _classes(1)
ConvBn2d, ConvBnReLU2d, ConvReLU2d = _classes(2)
ConvBn3d, ConvBnReLU3d, ConvReLU3d = _classes(3)


def update_bn_stats(mod):
    """Calls update_bn_stats() of a fused layer and leaves other modules alone: for model.apply()."""
    if isinstance(mod, Normalised):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """Calls freeze_bn_stats() of a fused layer and leaves other modules alone: for model.apply()."""
    if isinstance(mod, Normalised):
        mod.freeze_bn_stats()
