"""Methods that change a model after it was written: `ao.quantization`, `ao.pruning`."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
