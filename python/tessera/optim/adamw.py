"""AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2017)."""

import functools

from .adam import Adam, adam
from .optimizer import Optimizer, declared

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with p *= 1 - lr weight_decay instead of weight decay in the gradient."""

    _fixed = {"decoupled_weight_decay": True}

    @declared
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        Optimizer._declare(**locals())


adamw = functools.partial(adam, decoupled_weight_decay=True)
