"""AMD devices, for which this package has no code: there is nothing to translate."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
