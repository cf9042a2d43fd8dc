"""Adam (Kingma and Ba 2014)."""

import tessera
from tessera import Tensor

from .optimizer import (
    Optimizer,
    _check_choice,
    _get_value,
    _use_grad_for_differentiable,
    as_real,
    check,
    check_betas,
    check_lr,
    fused_ready,
    new_step,
    run_closure,
    setstate_defaults,
    step_lists,
    take_scale,
    undo_steps,
)

__all__ = ["Adam", "adam"]


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr m / (1 - b1^t) / (sqrt(v) / sqrt(1 - b2^t) + eps);
    amsgrad: the largest v so far.

    weight_decay is added to the gradient (decoupled_weight_decay: p *= 1 - lr weight_decay first, as in AdamW).
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                amsgrad=amsgrad,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
                decoupled_weight_decay=decoupled_weight_decay,
            ),
        )
        _check_choice(foreach, fused, differentiable)
        if fused:
            self._step_supports_amp_scaling = True

    def __setstate__(self, state):
        super().__setstate__(state)
        setstate_defaults(
            self,
            amsgrad=False,
            maximize=False,
            foreach=None,
            capturable=False,
            differentiable=False,
            decoupled_weight_decay=False,
            fused=None,
        )

    def _init_group(self, group):
        """Lists of parameters, gradients, m, v, max v, steps; makes the state that is missing."""
        params, grads, ms, vs, max_vs, steps = [], [], [], [], [], []
        amsgrad = group["amsgrad"]
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.layout != tessera.strided:
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            state = self.state[p]
            if not state:
                state["step"] = new_step(p, group)
                state["exp_avg"] = tessera.zeros_like(p, memory_format=tessera.preserve_format)
                state["exp_avg_sq"] = tessera.zeros_like(p, memory_format=tessera.preserve_format)
                if amsgrad:
                    state["max_exp_avg_sq"] = tessera.zeros_like(p, memory_format=tessera.preserve_format)
            if group["differentiable"] and state["step"].requires_grad:
                raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
            params.append(p)
            grads.append(grad)
            ms.append(state["exp_avg"])
            vs.append(state["exp_avg_sq"])
            steps.append(state["step"])
            if amsgrad:
                max_vs.append(state["max_exp_avg_sq"])
        return params, grads, ms, vs, max_vs, steps

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            options = dict(
                amsgrad=group["amsgrad"],
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
                decoupled_weight_decay=group["decoupled_weight_decay"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
            )
            lists = (
                None
                if isinstance(beta1, Tensor) or isinstance(beta2, Tensor)
                else step_lists(self, group, _STATE_AMSGRAD if group["amsgrad"] else _STATE)
            )
            if lists is not None:
                params, grads, steps, ms, vs, *max_vs = lists
                if params:
                    _fused(params, grads, ms, vs, max_vs[0] if max_vs else [], steps, **options)
                continue
            lists = self._init_group(group)
            if lists[0]:
                adam(*lists, differentiable=group["differentiable"], capturable=group["capturable"], **options)
        return loss


_STATE = ("step", "exp_avg", "exp_avg_sq")
_STATE_AMSGRAD = (*_STATE, "max_exp_avg_sq")


def _fused(
    params,
    grads,
    ms,
    vs,
    max_vs,
    steps,
    *,
    amsgrad,
    beta1,
    beta2,
    lr,
    weight_decay,
    eps,
    maximize,
    decoupled_weight_decay,
    grad_scale,
    found_inf,
):
    """All parameters in one call."""
    tessera._C._add_to_steps(steps, 1)
    op = tessera._fused_adamw_ if decoupled_weight_decay else tessera._fused_adam_
    op(
        params,
        grads,
        ms,
        vs,
        max_vs,
        steps,
        lr=float(lr),
        beta1=beta1,
        beta2=beta2,
        weight_decay=float(weight_decay),
        eps=eps,
        amsgrad=amsgrad,
        maximize=maximize,
        grad_scale=grad_scale,
        found_inf=found_inf,
    )
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
    plain = not differentiable and not isinstance(beta1, Tensor) and not isinstance(beta2, Tensor)
    if plain and fused_ready(lr, params, grads):
        _fused(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            max_exp_avg_sqs,
            state_steps,
            amsgrad=amsgrad,
            beta1=beta1,
            beta2=beta2,
            lr=lr,
            weight_decay=weight_decay,
            eps=eps,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
            grad_scale=grad_scale,
            found_inf=found_inf,
        )
        return
    if not take_scale(grads, grad_scale, found_inf):
        return
    for i, p in enumerate(params):
        state_steps[i] += 1
        t = state_steps[i] if differentiable or capturable else _get_value(state_steps[i])
        _single(
            p,
            grads[i],
            exp_avgs[i],
            exp_avg_sqs[i],
            max_exp_avg_sqs[i] if amsgrad else None,
            t,
            differentiable,
            decoupled_weight_decay,
            beta1,
            beta2,
            lr,
            weight_decay,
            eps,
            maximize,
        )


def _single(p, grad, m, v, max_v, t, differentiable, decoupled, beta1, beta2, lr, weight_decay, eps, maximize):
    if maximize:
        grad = -grad
    if weight_decay != 0:
        if decoupled:
            p.mul_(1 - lr * weight_decay)
        else:
            grad = grad.add(p, alpha=weight_decay)
    p, grad, m, v, max_v = as_real(p, grad, m, v, max_v)
    m.lerp_(grad, 1 - beta1)
    if differentiable:
        v.mul_(beta2).addcmul_(grad, grad.clone() if grad.requires_grad else grad, value=1 - beta2)
    else:
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
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
        p.addcdiv_(m, v.sqrt() / (root * -step_size) + eps / -step_size)
    else:
        p.addcdiv_(m, (v.sqrt() / root).add_(eps), value=-step_size)
