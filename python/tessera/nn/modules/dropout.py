"""Dropout layers."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]


@layer("p=0.5, inplace=False", shows="p= inplace=", then="self._check()")
class _DropoutNd(Module):
    def _check(self):
        if not 0 <= self.p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")


@layer(computes="F.dropout(input, p, training, inplace)")
class Dropout(_DropoutNd):
    """In training zeroes each element with probability p and scales the others by 1 / (1 - p) (Hinton et al. 2012). Any
    shape.
    """


@layer(computes="F.dropout1d(input, p, training, inplace)")
class Dropout1d(_DropoutNd):
    """In training zeroes whole channels of (N, C, L) or (C, L)."""


@layer(computes="F.dropout2d(input, p, training, inplace)")
class Dropout2d(_DropoutNd):
    """In training zeroes whole channels of (N, C, H, W) or (N, C, L)."""


@layer(computes="F.dropout3d(input, p, training, inplace)")
class Dropout3d(_DropoutNd):
    """In training zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""


@layer(computes="F.alpha_dropout(input, p, training)")
class AlphaDropout(_DropoutNd):
    """Dropout that keeps the mean 0 and variance 1 of SELU networks (Klambauer et al. 2017)."""


@layer(computes="F.feature_alpha_dropout(input, p, training)")
class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""
