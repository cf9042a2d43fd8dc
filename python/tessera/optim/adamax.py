"""Adamax, Adam with the infinity norm (Kingma and Ba 2014)."""

import tessera

from ._single import SingleTensorOptimizer
from .optimizer import Optimizer, as_real, count_of, constructor

__all__ = ["Adamax"]


class Adamax(SingleTensorOptimizer):
    """m = b1 m + (1 - b1) g, u = max(b2 u, |g| + eps), p -= lr / (1 - b1^t) m / u."""

    _state = ("exp_avg", "exp_inf")

    __init__ = constructor(
        dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None),
        dict(maximize=False, differentiable=False, capturable=False),
    )

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        p, grad, m, u = as_real(p, grad, state["exp_avg"], state["exp_inf"])
        m.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            u.copy_(tessera.maximum(u * beta2, grad.abs() + group["eps"]))
        else:
            tessera.maximum(u.mul_(beta2), grad.abs().add_(group["eps"]), out=u)
        rate = group["lr"] / (1 - beta1 ** count_of(state["step"], group))
        if isinstance(rate, (int, float)):
            p.addcdiv_(m, u, value=-rate)
        else:
            p.sub_(m / u * rate)
