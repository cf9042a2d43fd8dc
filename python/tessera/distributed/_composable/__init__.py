"""Older places of what changes modules for many processes."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, {"fully_shard": "fsdp"})
