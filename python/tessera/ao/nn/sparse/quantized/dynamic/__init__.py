"""Linear layers with sparse weights that round their input at each call."""

from .linear import Linear

__all__ = ["Linear"]
