"""Resilient backpropagation (Riedmiller and Braun 1993)."""

import tessera

from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import Optimizer, as_real, check, constructor

__all__ = ["Rprop"]


class Rprop(SingleTensorOptimizer):
    """A step size for each element, larger (etas[1]) while the gradient keeps its sign, smaller (etas[0], and no move)
    when it changes.
    """

    _checks = {"etas": lambda etas, _: check(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")}

    __init__ = constructor(
        dict(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)),
        dict(capturable=False, foreach=None, maximize=False, differentiable=False),
        order="lr etas step_sizes foreach maximize differentiable",
    )

    def _new_state(self, p, group):
        # a complex gradient has one step size for each part
        lr = group["lr"] * (1 + 1j) if p.is_complex() else group["lr"]
        return {
            "prev": zeros_like(p),
            "step_size": zeros_like(p).add_(lr.to(p.device) if isinstance(lr, tessera.Tensor) else lr),
        }

    def _update(self, p, grad, state, group):
        down, up = group["etas"]
        low, high = group["step_sizes"]
        p, grad, prev, size = as_real(p, grad, state["prev"], state["step_size"])
        sign = (grad * prev).detach().sign()
        kept = (sign + 1).clamp_max_(1)  # 0 where the sign has changed
        size.mul_(kept.clamp_min(down).clamp_min_(sign * up)).clamp_min_(low).clamp_max_(high)
        most = kept.neg_().add_(1).reciprocal_().sub_(1)  # 0 there, elsewhere infinity
        grad = grad.clamp_max(most).clamp_min_(-most)
        p.addcmul_(grad.sign(), size, value=-1)
        prev.copy_(grad)
