"""Adadelta (Zeiler 2012)."""

from ._single import SingleTensorOptimizer
from .optimizer import Optimizer, as_real, check, constructor, subtract_scaled

__all__ = ["Adadelta", "adadelta"]


class Adadelta(SingleTensorOptimizer):
    """v = rho v + (1 - rho) g^2, d = sqrt(u + eps) / sqrt(v + eps) g, u = rho u + (1 - rho) d^2, p -= lr d."""

    _state = ("square_avg", "acc_delta")
    _checks = {"rho": lambda rho, _: check(0.0 <= rho <= 1.0, "rho value", rho)}

    __init__ = constructor(
        dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None),
        dict(capturable=False, maximize=False, differentiable=False),
        order="lr rho eps weight_decay maximize capturable",
    )

    def _update(self, p, grad, state, group):
        rho, eps = group["rho"], group["eps"]
        p, grad, v, u = as_real(p, grad, state["square_avg"], state["acc_delta"])
        v.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        std = v.add(eps).sqrt_()
        delta = u.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(std).mul_(grad)
        u.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        subtract_scaled(p, delta, group["lr"])


def adadelta(
    params,
    grads,
    square_avgs,
    acc_deltas,
    state_steps,
    capturable=False,
    foreach=None,
    differentiable=False,
    has_complex=False,
    *,
    lr,
    rho,
    eps,
    weight_decay,
    maximize,
):
    """One step of Adadelta on lists of tensors."""
    from .optimizer import decayed

    group = dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, differentiable=differentiable)
    for p, g, v, u, t in zip(params, grads, square_avgs, acc_deltas, state_steps):
        t += 1
        Adadelta._update(None, p, decayed(g, p, group), {"square_avg": v, "acc_delta": u}, group)
