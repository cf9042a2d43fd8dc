"""RMSprop (Hinton 2012)."""

from tessera import Tensor

from ._single import SingleTensorOptimizer, zeros_like
from .optimizer import Optimizer, as_real, at_least_zero, constructor, subtract_scaled

__all__ = ["RMSprop"]


class RMSprop(SingleTensorOptimizer):
    """v = alpha v + (1 - alpha) g^2, p -= lr g / (sqrt(v) + eps); centered: v minus the squared mean gradient; momentum
    on the scaled gradient.
    """

    _checks = {"alpha": at_least_zero("alpha value")}

    __init__ = constructor(
        dict(
            lr=1e-2,
            alpha=0.99,
            eps=1e-8,
            weight_decay=0,
            momentum=0,
            centered=False,
            capturable=False,
            foreach=None,
            maximize=False,
            differentiable=False,
        ),
        order="lr momentum alpha eps centered",
    )

    def _new_state(self, p, group):
        state = {"square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def _update(self, p, grad, state, group):
        alpha = group["alpha"]
        p, grad, v, mean, buf = as_real(
            p, grad, state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer")
        )
        v.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean.lerp_(grad, 1 - alpha)
            scale = v.addcmul(mean, mean, value=-1).sqrt_()
        else:
            scale = v.sqrt()
        scale = scale.add(group["eps"]) if group["differentiable"] else scale.add_(group["eps"])
        if group["momentum"] > 0:
            buf.mul_(group["momentum"]).addcdiv_(grad, scale)
            subtract_scaled(p, buf, group["lr"])
        elif isinstance(group["lr"], Tensor):
            subtract_scaled(p, grad / scale, group["lr"])
        else:
            p.addcdiv_(grad, scale, value=-group["lr"])
