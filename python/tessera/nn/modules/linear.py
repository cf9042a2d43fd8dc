"""Linear, Bilinear, Identity and LazyLinear."""

import math

from tessera.nn import functional as F

from ._parts import draw_affine, draw_uniform, lazy_parameters, new_parameters
from .lazy import InferredMixin
from .module import Module

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input. Takes any constructor arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """y = x W^T + b: input (*, in_features), output (*, out_features).

    weight: (out_features, in_features), bias: (out_features); both start uniform in +-1 / sqrt(in_features).
    """

    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        new_parameters(self, device, dtype, weight=(out_features, in_features), bias=(out_features,) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new weights."""
        draw_affine(self.weight, self.bias)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that dynamic quantization leaves alone (the output projection of MultiheadAttention)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)


class Bilinear(Module):
    """y = x1^T A x2 + b: inputs (*, in1_features) and (*, in2_features), weight (out_features, in1_features,
    in2_features).
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        new_parameters(
            self,
            device,
            dtype,
            weight=(out_features, in1_features, in2_features),
            bias=(out_features,) if bias else None,
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new weights."""
        draw_uniform(1 / math.sqrt(self.in1_features), self.weight, self.bias)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(InferredMixin, Linear):
    """A Linear whose in_features comes from the first input."""

    cls_to_become = Linear
    _unknown = "in_features"

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        # no bias here: the real one would be initialized for a weight that does not exist yet
        super().__init__(0, 0, False)
        self.out_features = out_features
        lazy_parameters(self, device, dtype, "weight", *["bias"] * bool(bias))

    def initialize_parameters(self, input):
        """Takes in_features from the input's last dim."""
        width = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = width
            self._materialize(weight=(self.out_features, width), bias=(self.out_features,))
        elif self.in_features == 0:  # the shapes came with a checkpoint
            known = self.weight.shape[-1]
            assert width == known, (
                f"The in_features inferred from input: {width} is not equal to in_features from self.weight: {known}"
            )
            self.in_features = width
