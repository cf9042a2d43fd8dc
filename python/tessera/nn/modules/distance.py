"""Distances between vectors."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["PairwiseDistance", "CosineSimilarity"]


@layer(
    "p=2.0, eps=1e-6, keepdim=False",
    "x1, x2 -> F.pairwise_distance(x1, x2, norm, eps, keepdim)",
    sets={"p": None, "norm": "p"},
)
class PairwiseDistance(Module):
    """|x1 - x2 + eps|_p over the last dim of (N, D) or (D)."""


@layer("dim=1, eps=1e-8", "x1, x2 -> F.cosine_similarity(x1, x2, dim, eps)")
class CosineSimilarity(Module):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`."""
