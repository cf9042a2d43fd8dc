"""Muon: momentum orthogonalised by Newton-Schulz iterations (Jordan 2024)."""

import math

import tessera

from .optimizer import (
    AT_LEAST_ZERO,
    Optimizer,
    at_least_zero,
    check_rate,
    constructor,
    dense_parameters,
    run_closure,
)

__all__ = ["Muon"]


def _check_adjustment(how, _):
    if how not in (None, "original", "match_rms_adamw"):
        raise ValueError(f"Adjust learning rate function {how} is not supported")


class Muon(Optimizer):
    """SGD momentum whose step is replaced by the nearest (semi) orthogonal matrix, for 2-D parameters (ValueError for
    others).
    """

    _steps_are_tensors = False
    _checks = {
        "lr": check_rate,
        "momentum": at_least_zero("momentum", AT_LEAST_ZERO),
        "weight_decay": at_least_zero("weight decay", AT_LEAST_ZERO),
        "adjust_lr_fn": _check_adjustment,
    }

    __init__ = constructor(
        dict(
            lr=1e-3,
            weight_decay=0.1,
            momentum=0.95,
            nesterov=True,
            ns_coefficients=(3.4445, -4.7750, 2.0315),
            eps=1e-7,
            ns_steps=5,
            adjust_lr_fn=None,
        ),
    )

    def _begin(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    @tessera.no_grad()
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            lr = float(group["lr"])
            for p, grad, state in dense_parameters(self, group):
                if p.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = tessera.zeros_like(grad, memory_format=tessera.preserve_format)
                buf = state["momentum_buffer"]
                buf.lerp_(grad, 1 - group["momentum"])
                update = grad.lerp(buf, group["momentum"]) if group["nesterov"] else buf
                update = _orthogonalize(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(update, alpha=-_adjust_lr(lr, group["adjust_lr_fn"], p.shape))
        return loss


def _orthogonalize(grad, coefficients, steps, eps):
    """Newton-Schulz iterations of the quintic polynomial with the given coefficients, in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = tessera.addmm(x, tessera.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjust_lr(lr, how, shape):
    rows, cols = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / cols))
    return lr * 0.2 * math.sqrt(max(rows, cols))
