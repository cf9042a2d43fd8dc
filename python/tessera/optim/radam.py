"""RAdam, Adam with a rectified learning rate (Liu et al. 2019)."""

import tessera

from ._single import SingleTensorOptimizer
from .optimizer import Optimizer, as_real, count_of, constructor

__all__ = ["RAdam"]


class RAdam(SingleTensorOptimizer):
    """Adam's step times the rectification term where rho_t > 5, else plain momentum."""

    _state = ("exp_avg", "exp_avg_sq")

    __init__ = constructor(
        dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False),
        dict(foreach=None, maximize=False, capturable=False, differentiable=False),
    )

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        t = count_of(state["step"], group)
        p, grad, m, v = as_real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction2 = 1 - beta2**t
        m_hat = m / (1 - beta1**t)
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * t * beta2**t / correction2
        step = m_hat * group["lr"]

        def rectified(rho):
            rect = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            return step * (correction2**0.5 / (v.sqrt() + group["eps"])) * rect

        if isinstance(rho, (int, float)):
            p.sub_(rectified(rho) if rho > 5.0 else step)
        else:
            p.sub_(tessera.where(rho > 5.0, rectified(rho.clamp(min=5.0)), step))
