"""Masks of plain tensors, parameters and embeddings."""

from tessera._lazy import attach as _attach

_table = {"BaseDataSparsifier": "base_data_sparsifier", "DataNormSparsifier": "data_norm_sparsifier"}
__all__ = sorted(_table)  # noqa: PLE0605

__getattr__, __dir__ = _attach(__name__, _table)
