"""Parts that passes are made of, loaded when they are asked for."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
