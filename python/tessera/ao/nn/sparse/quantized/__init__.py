"""Linear layers on integers with sparse weights."""

from tessera._lazy import attach as _attach

from .linear import Linear

__all__ = ["Linear"]
__getattr__, __dir__ = _attach(__name__)
