"""Infinite whole numbers: bounds of sizes."""

from tessera.fx.experimental._expressions import _Infinity as IntInfinity
from tessera.fx.experimental._expressions import int_oo

__all__ = ["IntInfinity", "int_oo"]
