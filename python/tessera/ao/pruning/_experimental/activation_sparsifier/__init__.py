"""Masks of what goes into layers."""

from tessera._lazy import attach as _attach

_table = {"ActivationSparsifier": "activation_sparsifier"}
__all__ = sorted(_table)  # noqa: PLE0605

__getattr__, __dir__ = _attach(__name__, _table)
