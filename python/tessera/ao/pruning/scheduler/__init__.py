"""What changes the level of sparsity from step to step."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
