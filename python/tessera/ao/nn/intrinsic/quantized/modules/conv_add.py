"""Convolutions with an addition, on integers."""

from .conv_relu import ConvAdd2d, ConvAddReLU2d

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]
