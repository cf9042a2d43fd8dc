"""Algorithms over groups: joining, communication hooks, averages of models."""

from tessera._lazy import attach as _attach
from tessera.distributed.algorithms.join import Join, Joinable, JoinHook

__getattr__, __dir__ = _attach(__name__)

__all__ = ["Join", "JoinHook", "Joinable"]
