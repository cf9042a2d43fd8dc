"""Linear, Bilinear, Identity and LazyLinear."""

from tessera.nn import functional as F

from ._declared import layer
from ._parts import lazy_parameters
from .lazy import InferredMixin
from .module import Module

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


@layer("*args, **kwargs", "input")
class Identity(Module):
    """Returns its input. Takes any constructor arguments."""


@layer(
    "in_features, out_features, bias=True, device=None, dtype=None",
    "F.linear(input, weight, bias)",
    "in_features= out_features= bias=",
    weight="(out_features, in_features) ~ fan_in",
    bias="(out_features,) if bias ~ weight_fan_in",
)
class Linear(Module):
    """y = x W^T + b: input (*, in_features), output (*, out_features).

    weight: (out_features, in_features), bias: (out_features); both start uniform in +-1 / sqrt(in_features).
    """


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that dynamic quantization leaves alone (the output projection of MultiheadAttention)."""


@layer(
    "in1_features, in2_features, out_features, bias=True, device=None, dtype=None",
    "input1, input2 -> F.bilinear(input1, input2, weight, bias)",
    "in1_features= in2_features= out_features= bias=",
    then="self._check()",
    weight="(out_features, in1_features, in2_features) ~ in1_features",
    bias="(out_features,) if bias ~ in1_features",
)
class Bilinear(Module):
    """y = x1^T A x2 + b: inputs (*, in1_features) and (*, in2_features), weight (out_features, in1_features,
    in2_features).
    """

    def _check(self):
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {self.in1_features}")


# No bias at first: it would be drawn for a weight that does not exist yet.
@layer(
    "out_features, bias=True, device=None, dtype=None",
    base="0, 0, False",
    then="self.out_features = out_features; lazy_parameters(self, device, dtype, 'weight', *['bias'] * bool(bias))",
)
class LazyLinear(InferredMixin, Linear):
    """A Linear whose in_features comes from the first input."""

    cls_to_become = Linear
    _unknown = "in_features"

    def initialize_parameters(self, input):
        """Takes in_features from the input's last dim."""
        width = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = width
            self._materialize()
        elif self.in_features == 0:  # the shapes came with a checkpoint
            known = self.weight.shape[-1]
            assert width == known, (
                f"The in_features inferred from input: {width} is not equal to in_features from self.weight: {known}"
            )
            self.in_features = width
