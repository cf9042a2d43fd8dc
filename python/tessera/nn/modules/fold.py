"""Fold and Unfold."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["Fold", "Unfold"]


@layer(
    "output_size, kernel_size, dilation=1, padding=0, stride=1",
    "F.fold(input, output_size, kernel_size, dilation, padding, stride)",
    "output_size= kernel_size= dilation= padding= stride=",
)
class Fold(Module):
    """Adds columns (N, C kh kw, L) up into (N, C, *output_size); overlapping places are summed."""


@layer(
    "kernel_size, dilation=1, padding=0, stride=1",
    "F.unfold(input, kernel_size, dilation, padding, stride)",
    "kernel_size= dilation= padding= stride=",
)
class Unfold(Module):
    """The windows of (N, C, H, W) as columns (N, C kh kw, L)."""
