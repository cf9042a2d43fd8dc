"""Adagrad (Duchi et al. 2011)."""

import tessera

from ._lists import joined
from .optimizer import (
    Optimizer,
    _get_value,
    _to_scalar,
    _use_grad_for_differentiable,
    as_real,
    decayed,
    constructor,
    new_step,
    run_closure,
    scale_of,
    take_scale,
)

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Optimizer):
    """s = s + g^2, p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps). The state exists from the construction on.
    Sparse gradients touch their rows only.
    """

    __init__ = constructor(
        dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None),
        dict(maximize=False, differentiable=False, fused=None),
        order="lr lr_decay eps",
    )

    def _begin(self):
        start = self.defaults["initial_accumulator_value"]
        for group in self.param_groups:
            for p in group["params"]:
                value = complex(start, start) if p.is_complex() else start
                total = tessera.full_like(p, value, memory_format=tessera.preserve_format)
                self.state[p] = {"step": new_step(p, group), "sum": total}

    def share_memory(self):
        """Moves the state to shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not take_scale([p.grad for p in params], **scale_of(self)):
                continue
            for p, grad, state in joined([(p, p.grad, self.state[p]) for p in params], group):
                state["step"] += 1
                _update(p, grad, state["sum"], _get_value(state["step"]), group)
        return loss


def _update(p, grad, total, t, group):
    rate = _to_scalar(group["lr"]) / (1 + (t - 1) * group["lr_decay"])
    if isinstance(grad, tessera.Tensor) and grad.is_sparse:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = (-grad if group["maximize"] else grad).coalesce()
        rows, values = grad._indices(), grad._values()

        def sparse(v):
            return tessera._sparse_coo_tensor_unsafe(rows, v, grad.size(), is_coalesced=True)

        total.add_(sparse(values.pow(2)))
        std = total.sparse_mask(grad)._values().sqrt_().add_(group["eps"])
        p.add_(sparse(values / std), alpha=-rate)
        return
    p, grad, total = as_real(p, decayed(grad, p, group), total)
    total.addcmul_(grad, grad, value=1)
    std = total.sqrt() + group["eps"]
    p.addcdiv_(grad, std, value=-rate)


def adagrad(
    params,
    grads,
    state_sums,
    state_steps,
    fused=None,
    grad_scale=None,
    found_inf=None,
    has_sparse_grad=False,
    foreach=None,
    differentiable=False,
    has_complex=False,
    *,
    lr,
    weight_decay,
    lr_decay,
    eps,
    maximize,
):
    """One step of Adagrad on lists of tensors."""
    group = dict(lr=lr, weight_decay=weight_decay, lr_decay=lr_decay, eps=eps, maximize=maximize)
    if not take_scale(grads, grad_scale, found_inf):
        return
    for p, grad, total, step in zip(params, grads, state_sums, state_steps):
        step += 1
        _update(p, grad, total, _get_value(step), group)
