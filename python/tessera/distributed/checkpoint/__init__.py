"""Checkpoints of many processes. (Still to come: what reads and writes them raises.)"""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
