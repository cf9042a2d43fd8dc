"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

import tessera

from ._lists import of_numbers
from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import (
    Optimizer,
    _get_scalar_dtype,
    _get_value,
    as_real,
    count_of,
    constructor,
    subtract_scaled,
)

__all__ = ["ASGD"]


class ASGD(SingleTensorOptimizer):
    """p = p (1 - lambd eta) - eta g, ax = ax + (p - ax) mu; eta = lr / (1 + lambd lr t)^alpha, mu = 1 / max(1, t -
    t0).
    """

    __init__ = constructor(
        dict(
            lr=1e-2,
            lambd=1e-4,
            alpha=0.75,
            t0=1e6,
            weight_decay=0,
            foreach=None,
            maximize=False,
            differentiable=False,
            capturable=False,
        ),
    )

    def _new_state(self, p, group):
        dtype = _get_scalar_dtype()
        device = p.device if group["capturable"] else None
        return {
            "eta": tessera.as_tensor(count_of(group["lr"], group), dtype=dtype, device=device).clone().detach(),
            "mu": tessera.ones((), dtype=dtype, device=device),
            "ax": zeros_like(p),
        }

    def _update(self, p, grad, state, group):
        p, grad, ax = as_real(p, grad, state["ax"])
        if group["capturable"]:
            self._update_there(p, grad, ax, state, group)
            return
        eta, mu, t = _get_value(state["eta"]), _get_value(state["mu"]), _get_value(state["step"])
        p.mul_(1 - group["lambd"] * eta)
        p.add_(grad, alpha=-eta)
        if mu == 1:
            ax.copy_(p)
        else:
            ax.add_(p.sub(ax).mul_(mu))
        # rounded to the counters' dtype, so that a loaded state (in the parameter's dtype) goes on with the same
        # numbers
        lr, dtype = _get_value(group["lr"]), _get_scalar_dtype()
        state["eta"].copy_(tessera.tensor(lr / ((1 + group["lambd"] * lr * t) ** group["alpha"]), dtype=dtype))
        state["mu"].copy_(tessera.tensor(1 / max(1, t - group["t0"]), dtype=dtype))

    @staticmethod
    def _update_there(p, grad, ax, state, group):
        """The same with all numbers on the parameter's device."""
        eta, mu, lr = state["eta"], state["mu"], group["lr"]
        p.mul_(1 - group["lambd"] * eta)
        subtract_scaled(p, grad, eta)
        ax.mul_(1 - mu).add_(p * mu)

        def numbers(t):
            return lr / (1 + group["lambd"] * lr * t) ** group["alpha"], 1 / (t - group["t0"]).clamp(min=1)

        for old, new in zip((eta, mu), of_numbers(numbers, state["step"])):
            old.copy_(new)
