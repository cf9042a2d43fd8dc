"""Convolutions with what follows them, on integers."""

from tessera._root.held_classes import METHODS

from ...._quantized_ops import operators
from ....quantized.modules import conv
from ...modules import fused

__all__ = ["ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class _Fused:
    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """Of a reference layer, alone or with what follows it."""
        inner = ref_qconv[0] if isinstance(ref_qconv, fused._FusedModule) else ref_qconv
        return super().from_reference(inner, output_scale, output_zero_point)


def _rectified(n):
    return type(f"ConvReLU{n}d", (_Fused, getattr(conv, f"Conv{n}d")), {
        "__module__": __name__, "_operator": f"conv{n}d_relu", "_FLOAT_MODULE": getattr(fused, f"ConvReLU{n}d"),
        "__doc__": f"relu of a quantized Conv{n}d.",
    })  # fmt: skip


ConvReLU1d, ConvReLU2d, ConvReLU3d = map(_rectified, (1, 2, 3))


class ConvAdd2d(_Fused, conv.Conv2d):
    """A quantized Conv2d plus a second tensor."""

    _FLOAT_MODULE, _operator = fused.ConvAdd2d, "conv2d_add"

    def forward(self, input, extra_input):
        if len(input.shape) != 4:
            raise ValueError("Input shape must be `(N, C, H, W)`!")
        operator = getattr(operators, self._operator)
        return operator(self._edged(input), self._packed_params, extra_input, self.scale, self.zero_point)


class ConvAddReLU2d(ConvAdd2d):
    """relu of a quantized Conv2d plus a second tensor."""

    _FLOAT_MODULE, _operator = fused.ConvAddReLU2d, "conv2d_add_relu"


METHODS[ConvAdd2d, "forward"] = conv.script(
    "input: Tensor, extra_input: Tensor", "{op}(input, self._packed_params, extra_input, self.scale, self.zero_point)"
)
