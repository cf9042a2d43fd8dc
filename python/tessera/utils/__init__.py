"""Utilities: data loading, hooks, trees of containers, checkpointing."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, {"set_module": "_misc", "swap_tensors": "_misc"})
