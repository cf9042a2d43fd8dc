"""Passes over graphs of one dialect's operators."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
