"""Layer, group, RMS and local response normalisation."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


def _shape(sizes):
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


@layer(
    "size, alpha=1e-4, beta=0.75, k=1.0",
    "F.local_response_norm(input, size, alpha, beta, k)",
    "size alpha= beta= k=",
)
class LocalResponseNorm(Module):
    """Normalises over `size` neighbouring channels of (N, C, *): x / (k + alpha / size * sum x^2)^beta (Krizhevsky et
    al. 2012).
    """


@layer("size, alpha=1e-4, beta=0.75, k=1", shows="size alpha= beta= k=")
class CrossMapLRN2d(Module):
    """LocalResponseNorm as programs of the past have it, for (N, C, H, W): of channels c - (size - 1) // 2 to
    c + (size - 1) // 2, and the square of channel 0 stays in the sums of all channels behind it. Raises: ValueError
    unless the input has four dimensions.
    """

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        half = (self.size - 1) // 2
        squares = input.square().flatten(2).unsqueeze(1)  # (N, 1, C, H * W)
        sums = F.avg_pool2d(F.pad(squares, (0, 0, half, half)), (2 * half + 1, 1), 1) * (2 * half + 1)
        behind = input.size(1) - half - 1
        if behind > 0:
            sums = sums + F.pad(squares[:, :, :1].expand(-1, -1, behind, -1), (0, 0, half + 1, 0))
        return input / (sums * (self.alpha / self.size) + self.k).pow(self.beta).view(input.shape)


@layer(
    "normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None",
    "F.layer_norm(input, normalized_shape, weight, bias, eps)",
    "normalized_shape eps= elementwise_affine=",
    sets={"normalized_shape": "_shape(normalized_shape)"},
    weight="normalized_shape if elementwise_affine ~ ones",
    bias="normalized_shape if elementwise_affine and bias ~ zeros",
)
class LayerNorm(Module):
    """Normalises over the last dims, of shape normalized_shape, with the biased variance (Ba et al. 2016); weight and
    bias have that shape.
    """


@layer(
    "num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None",
    "F.group_norm(input, num_groups, weight, bias, eps)",
    "num_groups num_channels eps= affine=",
    then="self._check()",
    weight="(num_channels,) if affine ~ ones",
    bias="(num_channels,) if affine ~ zeros",
)
class GroupNorm(Module):
    """Normalises groups of channels of (N, C, *), each sample by itself (Wu and He 2018). ValueError if num_groups does
    not divide num_channels.
    """

    def _check(self):
        channels, groups = self.num_channels, self.num_groups
        if channels % groups != 0:
            raise ValueError(f"num_channels ({channels}) must be divisible by num_groups ({groups})")


@layer(
    "normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None",
    "x -> F.rms_norm(x, normalized_shape, weight, eps)",
    "normalized_shape eps= elementwise_affine=",
    sets={"normalized_shape": "_shape(normalized_shape)"},
    weight="normalized_shape if elementwise_affine ~ ones",
)
class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims, of shape normalized_shape (Zhang and Sennrich 2019). eps
    None: the dtype's epsilon.
    """
