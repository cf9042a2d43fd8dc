"""Batch normalisation with ReLU, on integers."""

from ....quantized.modules import normalization
from ...modules import fused

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(normalization.BatchNorm2d):
    """relu of a quantized BatchNorm2d."""

    _FLOAT_MODULE, _operator = fused.BNReLU2d, "batch_norm2d_relu"

    @classmethod
    def from_reference(cls, bn_relu, output_scale, output_zero_point):
        """Of a float layer with ReLU behind it."""
        return super().from_reference(bn_relu, output_scale, output_zero_point)


class BNReLU3d(normalization.BatchNorm3d):
    """relu of a quantized BatchNorm3d."""

    _FLOAT_MODULE, _operator = fused.BNReLU3d, "batch_norm3d_relu"

    @classmethod
    def from_reference(cls, bn_relu, output_scale, output_zero_point):
        """Of a float layer with ReLU behind it."""
        return super().from_reference(bn_relu, output_scale, output_zero_point)
