"""Structured pruning: layers lose whole outputs, the next ones their inputs."""

from tessera._lazy import attach as _attach

_table = {
    "BaseStructuredSparsifier": "base_structured_sparsifier",
    "BiasHook": "parametrization",
    "FakeStructuredSparsity": "parametrization",
    "FPGMPruner": "FPGM_pruner",
    "LSTMSaliencyPruner": "lstm_saliency_pruner",
    "SaliencyPruner": "saliency_pruner",
}
__all__ = sorted(_table)  # noqa: PLE0605

__getattr__, __dir__ = _attach(__name__, _table)
