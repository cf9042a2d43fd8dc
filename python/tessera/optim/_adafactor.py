"""Adafactor (Shazeer and Stern 2018)."""

import tessera

from .optimizer import (
    AT_LEAST_ZERO,
    Optimizer,
    at_least_zero,
    check_rate,
    constructor,
    dense_parameters,
    new_step,
    run_closure,
)

__all__ = ["Adafactor"]


def _check_decay(decay, _):
    if not 0.0 >= decay:
        raise ValueError(f"beta2_decay should be <= 0 but is: {decay}")


def _check_epsilons(eps, options):
    for i, value in enumerate(eps, 1):
        if not (value is None and i == 1):
            at_least_zero(f"epsilon{i}", AT_LEAST_ZERO)(value, options)


def _check_threshold(d, _):
    if not d >= 1.0:
        raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")


class Adafactor(Optimizer):
    """Adam-like steps with the second moment of matrices kept as row and column means; the update is clipped to RMS d,
    the rate is relative to the parameter's RMS.
    """

    _checks = {
        "lr": check_rate,
        "beta2_decay": _check_decay,
        "eps": _check_epsilons,
        "d": _check_threshold,
        "weight_decay": at_least_zero("weight_decay", AT_LEAST_ZERO),
    }

    __init__ = constructor(
        dict(lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0),
        dict(foreach=None, maximize=False),
    )

    @tessera.no_grad()
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            for p, grad, state in dense_parameters(self, group):
                if p.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                if not state:
                    state["step"] = new_step(p, group)
                    if p.dim() > 1:
                        state["row_var"] = grad.new_zeros((*p.shape[:-1], 1))
                        state["col_var"] = grad.new_zeros((*p.shape[:-2], 1, p.shape[-1]))
                    else:
                        state["variance"] = tessera.zeros_like(grad, memory_format=tessera.preserve_format)
                state["step"] += 1
                _update(p, -grad if group["maximize"] else grad, state, group)
        return loss


def _update(p, grad, state, group):
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = tessera.finfo(p.dtype).eps
    t = state["step"].item()
    keep = t ** group["beta2_decay"]
    lr = float(group["lr"])
    rho = min(lr, 1 / (t**0.5))
    rate = max(eps2, p.norm(2).item() / (p.numel() ** 0.5)) * rho
    if group["weight_decay"] != 0:
        p.mul_(1 - lr * group["weight_decay"])
    if grad.dim() > 1:
        row, col = state["row_var"], state["col_var"]
        row.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), keep)
        col.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), keep)
        var = (row @ col).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
    else:
        state["variance"].lerp_(grad.square(), keep)
        var = state["variance"].clone()
    update = var.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
    denom = max(1.0, update.norm(2).item() / ((update.numel() ** 0.5) * group["d"]))
    p.add_(update, alpha=-rate / denom)
