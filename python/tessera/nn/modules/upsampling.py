"""Upsample."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


def _factors(scale_factor):
    if isinstance(scale_factor, tuple):
        return tuple(map(float, scale_factor))
    return float(scale_factor) if scale_factor else None


@layer(
    "size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None",
    "F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor=recompute_scale_factor)",
    sets={"name": "type(self).__name__", "scale_factor": "_factors(scale_factor)"},
)
class Upsample(Module):
    """Resizes (N, C, ...) to `size` or by `scale_factor`; see functional.interpolate for the modes."""

    def __setstate__(self, state):
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self):
        what = "size" if self.scale_factor is None else "scale_factor"
        return f"{what}={getattr(self, what)!r}, mode={self.mode!r}"


@layer("size=None, scale_factor=None", base="size, scale_factor, mode='nearest'")
class UpsamplingNearest2d(Upsample):
    """Upsample with mode='nearest' for (N, C, H, W). Deprecated."""


@layer("size=None, scale_factor=None", base="size, scale_factor, mode='bilinear', align_corners=True")
class UpsamplingBilinear2d(Upsample):
    """Upsample with mode='bilinear' and align_corners=True for (N, C, H, W). Deprecated."""
