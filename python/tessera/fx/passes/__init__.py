"""Passes over graphs: each a module of its own, loaded when it is asked for."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
