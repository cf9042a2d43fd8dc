"""What watches tensors to find their scales."""

from abc import ABC, abstractmethod

from tessera.nn.modules.module import Module

__all__ = ["ObserverBase"]


class ObserverBase(ABC, Module):
    """Base of observers: `forward(x)` sees a tensor and gives it back, `calculate_qparams()` says what was found.

    Args:
        dtype: the dtype to quantize to.
        is_dynamic: scales are found again at each call.
    """

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x):
        """What a module does with a tensor."""
        raise NotImplementedError

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """(scale, zero point) of what was seen."""
        raise NotImplementedError
