"""NAdam, Adam with Nesterov momentum (Dozat 2016)."""

import tessera

from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import _get_scalar_dtype, _get_value, as_real, check, check_betas, check_lr

__all__ = ["NAdam"]


class NAdam(SingleTensorOptimizer):
    """Adam whose step mixes the next momentum with the gradient; the momentum's schedule is mu_t = b1 (1 - 0.5 * 0.96^(t momentum_decay))."""

    _late_defaults = {"capturable": False, "decoupled_weight_decay": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False):
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def _new_state(self, p, group):
        return {"mu_product": tessera.ones((), dtype=_get_scalar_dtype()), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        lr = _get_value(group["lr"])
        t = _get_value(state["step"])
        p, grad, m, v = as_real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = _get_value(state["mu_product"])
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = v.div(1 - beta2 ** t).sqrt()
        denom = denom + group["eps"]
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(m, denom, value=-lr * mu_next / (1.0 - product * mu_next))
