"""Adam (Kingma and Ba 2014)."""

import tessera
from tessera import Tensor

from ._single import zeros_like
from .optimizer import (
    Optimizer,
    _get_value,
    _use_grad_for_differentiable,
    as_real,
    check_betas,
    check_lr,
    check_tensors_of_lists,
    constructor,
    count_steps,
    fused_ready,
    new_step,
    run_closure,
    scale_of,
    step_lists,
    take_scale,
    undo_steps,
)

__all__ = ["Adam", "adam"]


def _check_rate(lr, options):
    check_tensors_of_lists(options, lr=lr)
    check_lr(lr)


def _check_betas(betas, options):
    """ValueError for betas outside [0, 1), a number beside a tensor, and tensors that can't be."""
    check_betas(betas, options)
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
    check_tensors_of_lists(options, **{f"betas[{i}]": beta for i, beta in enumerate(betas)})


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr m / (1 - b1^t) / (sqrt(v) / sqrt(1 - b2^t) + eps);
    amsgrad: the largest v so far.

    weight_decay is added to the gradient (decoupled_weight_decay: p *= 1 - lr weight_decay first, as in AdamW).
    """

    _checks = {"lr": _check_rate, "betas": _check_betas}

    __init__ = constructor(
        dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False),
        dict(
            foreach=None,
            maximize=False,
            capturable=False,
            differentiable=False,
            fused=None,
            decoupled_weight_decay=False,
        ),
        order="lr betas eps weight_decay amsgrad maximize",
    )

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            rule = scale_of(self)
            for name in _RULE:
                rule[name] = group[name]
            rule["beta1"], rule["beta2"] = group["betas"]
            names = _STATE if group["amsgrad"] else _STATE[:3]
            numbers = not isinstance(rule["beta1"], Tensor) and not isinstance(rule["beta2"], Tensor)
            lists = step_lists(self, group, names) if numbers else None
            if lists is not None:
                if lists[0]:
                    _all_at_once(lists, **rule)
                continue
            params, grads, steps, ms, vs, max_vs = self._lists(group, names)
            if params:
                flags = {name: group[name] for name in ("differentiable", "capturable")}
                adam(params, grads, ms, vs, max_vs, steps, **flags, **rule)
        return loss

    def _lists(self, group, names):
        """The parameters that have a gradient, the gradients, and the state of each name; makes what is missing."""
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.layout != tessera.strided:
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            state = self.state[p]
            if not state:
                state.update({"step": new_step(p, group)}, **{name: zeros_like(p) for name in names[1:]})
            if group["differentiable"] and state["step"].requires_grad:
                raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        columns = [[self.state[p][name] for p in params] if name in names else [] for name in _STATE]
        return [params, [p.grad for p in params], *columns]


_STATE = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
_RULE = ("amsgrad", "lr", "weight_decay", "eps", "maximize", "decoupled_weight_decay")


def _all_at_once(lists, lr, weight_decay, decoupled_weight_decay, found_inf, **rule):
    """All parameters in one call. `lists`: parameters, gradients, steps, m, v and perhaps the largest v."""
    params, grads, steps, ms, vs, *max_vs = lists
    count_steps(steps, 1)
    op = tessera._fused_adamw_ if decoupled_weight_decay else tessera._fused_adam_
    rule.update(lr=float(lr), weight_decay=float(weight_decay), found_inf=found_inf)
    op(params, grads, ms, vs, max_vs[0] if max_vs else [], steps, **rule)
    if found_inf is not None:
        undo_steps(steps, found_inf)


def adam(
    params,
    grads,
    exp_avgs,
    exp_avg_sqs,
    max_exp_avg_sqs,
    state_steps,
    foreach=None,
    capturable=False,
    differentiable=False,
    fused=None,
    grad_scale=None,
    found_inf=None,
    has_complex=False,
    decoupled_weight_decay=False,
    *,
    amsgrad,
    beta1,
    beta2,
    lr,
    weight_decay,
    eps,
    maximize,
):
    """One step of Adam or AdamW on lists of tensors."""
    rule = dict(amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps)
    rule.update(maximize=maximize, decoupled_weight_decay=decoupled_weight_decay)
    plain = not differentiable and not isinstance(beta1, Tensor) and not isinstance(beta2, Tensor)
    if plain and fused_ready(lr, params, grads):
        lists = params, grads, state_steps, exp_avgs, exp_avg_sqs, max_exp_avg_sqs
        _all_at_once(lists, grad_scale=grad_scale, found_inf=found_inf, **rule)
    elif take_scale(grads, grad_scale, found_inf):
        largest = max_exp_avg_sqs if amsgrad else [None] * len(params)
        for p, g, m, v, max_v, step in zip(params, grads, exp_avgs, exp_avg_sqs, largest, state_steps):
            step += 1
            t = step if differentiable or capturable else _get_value(step)
            _single((p, g, m, v, max_v), t, differentiable, rule)


def _single(tensors, t, differentiable, rule):
    p, grad, *_ = tensors
    lr, beta1, beta2 = rule["lr"], rule["beta1"], rule["beta2"]
    if rule["maximize"]:
        grad = -grad
    if rule["weight_decay"] != 0:
        if rule["decoupled_weight_decay"]:
            p.mul_(1 - lr * rule["weight_decay"])
        else:
            grad = grad.add(p, alpha=rule["weight_decay"])
    p, grad, m, v, max_v = as_real(p, grad, *tensors[2:])
    m.lerp_(grad, 1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad.clone() if differentiable and grad.requires_grad else grad, value=1 - beta2)
    step_size = lr / (1 - beta1**t)
    root = (1 - beta2**t) ** 0.5
    if max_v is not None:
        if differentiable:
            max_v.copy_(tessera.maximum(max_v.clone(), v))
        else:
            tessera.maximum(max_v, v, out=max_v)
        v = max_v
    if differentiable or isinstance(step_size, Tensor):
        # the step size joins the denominator, so that its gradient flows
        p.addcdiv_(m, v.sqrt() / (root * -step_size) + rule["eps"] / -step_size)
    else:
        p.addcdiv_(m, (v.sqrt() / root).add_(rule["eps"]), value=-step_size)
