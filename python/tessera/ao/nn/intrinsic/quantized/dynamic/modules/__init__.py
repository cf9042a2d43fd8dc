"""Fused layers that round their input at each call."""

from .linear_relu import LinearReLU

__all__ = [
    "LinearReLU",
]
