"""Where older programs look for DTensor."""

from tessera.distributed.tensor._api import DTensor, distribute_module, distribute_tensor

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]
