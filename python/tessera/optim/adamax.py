"""Adamax, Adam with the infinity norm (Kingma and Ba 2014)."""

import tessera

from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import as_real, check, check_betas, check_lr, count_of

__all__ = ["Adamax"]


class Adamax(SingleTensorOptimizer):
    """m = b1 m + (1 - b1) g, u = max(b2 u, |g| + eps), p -= lr / (1 - b1^t) m / u."""

    _late_defaults = {"capturable": False}

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                capturable=capturable,
            ),
        )

    def _new_state(self, p, group):
        return {"exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        p, grad, m, u = as_real(p, grad, state["exp_avg"], state["exp_inf"])
        m.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            u.copy_(tessera.maximum(u * beta2, grad.abs() + group["eps"]))
        else:
            tessera.maximum(u.mul_(beta2), grad.abs().add_(group["eps"]), out=u)
        rate = group["lr"] / (1 - beta1 ** count_of(state["step"], group))
        if isinstance(rate, tessera.Tensor):
            p.sub_(m / u * rate)
        else:
            p.addcdiv_(m, u, value=-rate)
