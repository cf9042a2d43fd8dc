"""AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2017)."""

import functools

from .adam import Adam, adam
from .optimizer import Optimizer, constructor

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with p *= 1 - lr weight_decay instead of weight decay in the gradient."""

    _fixed = {"decoupled_weight_decay": True}

    __init__ = constructor(
        dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False),
        dict(maximize=False, foreach=None, capturable=False, differentiable=False, fused=None),
    )


adamw = functools.partial(adam, decoupled_weight_decay=True)
