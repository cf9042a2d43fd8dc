"""Layers for training with dynamic quantization in mind."""

from .linear import Linear

__all__ = [
    "Linear",
]
