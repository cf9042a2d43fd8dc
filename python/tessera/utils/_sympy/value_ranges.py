"""Ranges of numbers."""

from tessera.fx.experimental.symbolic_shapes import ValueRanges

__all__ = ["ValueRanges"]
