"""Optimizers and learning-rate schedules."""

from tessera._lazy import attach as _attach

from .optimizer import Optimizer

_WHERE = {
    "Adafactor": "_adafactor",
    "Adadelta": "adadelta",
    "Adagrad": "adagrad",
    "Adam": "adam",
    "Adamax": "adamax",
    "AdamW": "adamw",
    "ASGD": "asgd",
    "LBFGS": "lbfgs",
    "Muon": "_muon",
    "NAdam": "nadam",
    "RAdam": "radam",
    "RMSprop": "rmsprop",
    "Rprop": "rprop",
    "SGD": "sgd",
    "SparseAdam": "sparse_adam",
}

__all__ = ["Optimizer", *_WHERE, "lr_scheduler", "swa_utils"]

__getattr__, __dir__ = _attach(__name__, _WHERE)
