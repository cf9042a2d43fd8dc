"""Pruning of whole channels, of activations, and of plain tensors."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
