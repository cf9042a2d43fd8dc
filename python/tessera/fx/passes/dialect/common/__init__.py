"""Passes for graphs of `tessera.ops.aten`."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
