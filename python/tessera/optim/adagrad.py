"""Adagrad (Duchi et al. 2011)."""

import tessera
from tessera._lazy import require

from .optimizer import (
    Optimizer,
    _check_choice,
    _get_scalar_dtype,
    _get_value,
    _use_grad_for_differentiable,
    as_real,
    check,
    check_lr,
    decayed,
    run_closure,
    setstate_defaults,
    take_scale,
)

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Optimizer):
    """s = s + g^2, p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps). The state exists from the construction on.
    Sparse gradients touch their rows only.
    """

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        check_lr(lr)
        check(lr_decay >= 0.0, "lr_decay value", lr_decay)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(initial_accumulator_value >= 0.0, "initial_accumulator_value value", initial_accumulator_value)
        check(eps >= 0.0, "epsilon value", eps)
        super().__init__(
            params,
            dict(
                lr=lr,
                lr_decay=lr_decay,
                eps=eps,
                weight_decay=weight_decay,
                initial_accumulator_value=initial_accumulator_value,
                foreach=foreach,
                maximize=maximize,
                differentiable=differentiable,
                fused=fused,
            ),
        )
        _check_choice(foreach, fused, differentiable)
        if fused:
            self._need_device_dtype_check_for_fused = True
            self._step_supports_amp_scaling = True
        for group in self.param_groups:
            for p in group["params"]:
                start = (
                    complex(initial_accumulator_value, initial_accumulator_value)
                    if p.is_complex()
                    else initial_accumulator_value
                )
                self.state[p] = {
                    "step": tessera.zeros((), dtype=_get_scalar_dtype(group["fused"]))
                    if fused
                    else tessera.tensor(0.0, dtype=_get_scalar_dtype()),
                    "sum": tessera.full_like(p, start, memory_format=tessera.preserve_format),
                }

    def __setstate__(self, state):
        super().__setstate__(state)
        setstate_defaults(self, foreach=None, maximize=False, differentiable=False, fused=None)

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
            if not take_scale(
                [p.grad for p in params], getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
            ):
                continue
            for p in params:
                state = self.state[p]
                state["step"] += 1
                _update(p, p.grad, state["sum"], _get_value(state["step"]), group)
        return loss


def _update(p, grad, total, t, group):
    rate = group["lr"] / (1 + (t - 1) * group["lr_decay"])
    if grad.is_sparse:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = (-grad if group["maximize"] else grad).coalesce()
        rows, values = grad._indices(), grad._values()

        sparse_coo_tensor = require("sparse_coo_tensor", "Adagrad.step() with sparse gradients")

        def sparse(v):
            return sparse_coo_tensor(rows, v, grad.size())

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
