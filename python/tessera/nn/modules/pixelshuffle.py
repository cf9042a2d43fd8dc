"""PixelShuffle and PixelUnshuffle."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


@layer("upscale_factor", "F.pixel_shuffle(input, upscale_factor)", "upscale_factor=")
class PixelShuffle(Module):
    """(*, C r^2, H, W) -> (*, C, H r, W r), r = upscale_factor (Shi et al. 2016)."""


@layer("downscale_factor", "F.pixel_unshuffle(input, downscale_factor)", "downscale_factor=")
class PixelUnshuffle(Module):
    """(*, C, H r, W r) -> (*, C r^2, H, W), r = downscale_factor."""
