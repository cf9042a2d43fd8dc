"""NAdam, Adam with Nesterov momentum (Dozat 2016)."""

import tessera

from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import Optimizer, _get_scalar_dtype, as_real, count_of, constructor, subtract_scaled

__all__ = ["NAdam"]


class NAdam(SingleTensorOptimizer):
    """Adam whose step mixes the next momentum with the gradient; the momentum's schedule is mu_t = b1 (1 - 0.5 *
    0.96^(t momentum_decay)).
    """

    __init__ = constructor(
        dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False),
        dict(foreach=None, maximize=False, capturable=False, differentiable=False),
        order="lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize",
    )

    def _new_state(self, p, group):
        device = p.device if group["capturable"] else None
        return {
            "mu_product": tessera.ones((), dtype=_get_scalar_dtype(), device=device),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        lr = count_of(group["lr"], group)
        t = count_of(state["step"], group)
        p, grad, m, v = as_real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = count_of(state["mu_product"], group)
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = v.div(1 - beta2**t).sqrt()
        denom = denom + group["eps"]
        rates = lr * (1.0 - mu) / (1.0 - product), lr * mu_next / (1.0 - product * mu_next)
        for direction, rate in zip((grad, m), rates):
            if group["capturable"]:
                subtract_scaled(p, direction / denom, rate)
            else:
                p.addcdiv_(direction, denom, value=-rate)
