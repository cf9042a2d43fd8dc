"""RAdam, Adam with a rectified learning rate (Liu et al. 2019)."""

from ._lists import of_numbers
from ._single import SingleTensorOptimizer
from .optimizer import Optimizer, as_real, count_of, constructor

__all__ = ["RAdam"]


class RAdam(SingleTensorOptimizer):
    """Adam's step times the rectification term where rho_t > 5, else plain momentum."""

    _state = ("exp_avg", "exp_avg_sq")

    __init__ = constructor(
        dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False),
        dict(foreach=None, maximize=False, capturable=False, differentiable=False),
        order="lr betas eps weight_decay maximize foreach capturable",
    )

    def _update(self, p, grad, state, group):
        beta1, beta2 = group["betas"]
        t = count_of(state["step"], group)
        p, grad, m, v = as_real(p, grad, state["exp_avg"], state["exp_avg_sq"])
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        rho_inf = 2 / (1 - beta2) - 1

        def rho_of(t):
            return rho_inf - 2 * t * beta2**t / (1 - beta2**t)

        def rectification(rho):
            return ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5

        if isinstance(t, (int, float)):
            step, rho = m / (1 - beta1**t) * group["lr"], rho_of(t)
            if rho > 5.0:
                step = step * ((1 - beta2**t) ** 0.5 / (v.sqrt() + group["eps"])) * rectification(rho)
            p.sub_(step)
            return

        def numbers(t):
            rho = rho_of(t)
            plain = (rho <= 5.0).to(t.dtype)
            rect = (1 - plain) * rectification(rho.clamp(min=5.0)) * (1 - beta2**t) ** 0.5
            return rect, plain, group["lr"] / (1 - beta1**t)

        # The one number or the other is 0: no branch, so nothing waits for the device.
        rect, plain, rate = of_numbers(numbers, t)
        p.sub_((v.sqrt() + group["eps"] + plain).reciprocal().mul(rect).add(plain) * m * rate)
