"""Sparsity while training: sparsifiers compute masks of weights, schedulers change their levels."""

from tessera._lazy import attach as _attach

_NAMES = {
    "scheduler.base_scheduler": "BaseScheduler",
    "scheduler.cubic_scheduler": "CubicSL",
    "scheduler.lambda_scheduler": "LambdaSL",
    "sparsifier.base_sparsifier": "BaseSparsifier",
    "sparsifier.nearly_diagonal_sparsifier": "NearlyDiagonalSparsifier",
    "sparsifier.weight_norm_sparsifier": "WeightNormSparsifier",
    "sparsifier.utils": "FakeSparsity fqn_to_module get_arg_info_from_tensor_fqn module_to_fqn",
    "_mappings": "get_dynamic_sparse_quantized_mapping get_static_sparse_quantized_mapping",
}
_table = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_table)  # noqa: PLE0605

__getattr__, __dir__ = _attach(__name__, _table)
