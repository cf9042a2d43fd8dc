"""Activations on integers."""

import tessera
from tessera import nn

from ..._quantized_ops import operators
from .utils import Observed, Scaled, qparams_of, quantized_weight

__all__ = ["ELU", "Hardswish", "LeakyReLU", "PReLU", "ReLU6", "Sigmoid", "Softmax"]


class ReLU6(nn.ReLU):
    """min(max(x, 0), 6) of a quantized x, with its scale."""

    def __init__(self, inplace=False):
        super().__init__(inplace)

    def forward(self, input):
        return operators.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """Of a float ReLU6."""
        return ReLU6(mod.inplace)


class Hardswish(Scaled, nn.Hardswish):
    """Hardswish, quantized by `scale` and `zero_point`."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        self._scales(scale, zero_point, device, dtype)

    def forward(self, input):
        return operators.hardswish(input, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        return cls(float(scale), int(zero_point))


class ELU(Observed, nn.ELU):
    """ELU, quantized by `scale` and `zero_point`."""

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        return operators.elu(input, self.scale, self.zero_point, self.alpha)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(Scaled, nn.LeakyReLU):
    """LeakyReLU, quantized by `scale` and `zero_point`."""

    def __init__(self, scale, zero_point, negative_slope=0.01, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        self._scales(scale, zero_point, device, dtype)

    def forward(self, input):
        return operators.leaky_relu(input, self.negative_slope, self.inplace, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """Sigmoid, quantized by `output_scale` and `output_zero_point`."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input):
        return operators.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float Sigmoid whose output was observed."""
        return cls(*qparams_of(mod))


class Softmax(Observed, nn.Softmax):
    """Softmax, quantized by `scale` and `zero_point`."""

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input):
        dim = self.dim
        if dim is None:
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return operators.softmax(input, dim, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(Observed, nn.Module):
    """PReLU with a quantized weight of `num_parameters`, quantized by `output_scale` and `output_zero_point`."""

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        self.set_weight(tessera.quantize_per_tensor(tessera.full((num_parameters,), 0.25), 1.0, 0, tessera.quint8))

    def set_weight(self, w):
        """Takes a quantized weight (num_parameters)."""
        self.weight = w

    def forward(self, input):
        return operators.prelu(input, self.weight, self.scale, self.zero_point)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        made = cls(float(scale), int(zero_point), mod.num_parameters)
        observer = mod.qconfig.weight()
        observer(mod.weight.detach().float())
        made.set_weight(quantized_weight(mod.weight, observer))
        return made
