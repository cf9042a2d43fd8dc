"""Pools of processes, under the name by which they are known."""

from multiprocessing.pool import Pool

__all__ = ["Pool"]
