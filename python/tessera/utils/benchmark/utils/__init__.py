"""The parts of `tessera.utils.benchmark`, under the names by which programs import them."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
