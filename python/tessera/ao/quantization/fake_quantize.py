"""What rounds numbers as quantization would, while a model trains."""

from abc import ABC, abstractmethod

import tessera
from tessera.nn.modules.module import Module

__all__ = ["FakeQuantizeBase"]


class FakeQuantizeBase(ABC, Module):
    """Base of modules that watch and round tensors. Both parts have a switch, a buffer of one byte that goes into the
    state dict: `observer_enabled` and `fake_quant_enabled`, both on at first.
    """

    fake_quant_enabled: tessera.Tensor
    observer_enabled: tessera.Tensor

    def __init__(self):
        super().__init__()
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, tessera.tensor([1], dtype=tessera.uint8))

    @abstractmethod
    def forward(self, x):
        """What a module does with a tensor."""
        raise NotImplementedError

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """(scale, zero point) of what was seen."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled=True):
        """Turns rounding on or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Turns rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Turns watching on or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Turns watching off."""
        self.enable_observer(False)
