"""Stochastic gradient descent."""

import tessera

from .optimizer import (
    Optimizer,
    _use_grad_for_differentiable,
    constructor,
    fused_ready,
    run_closure,
    scale_of,
    step_lists,
    take_scale,
)

__all__ = ["SGD", "sgd"]


def _check_nesterov(nesterov, options):
    if nesterov and (options["momentum"] <= 0 or options["dampening"] != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")


class SGD(Optimizer):
    """p -= lr g, with momentum b = momentum b + (1 - dampening) g (the first b is g), p -= lr b, or p -= lr (g +
    momentum b) (nesterov).
    """

    _steps_are_tensors = False
    _checks = {"nesterov": _check_nesterov}

    __init__ = constructor(
        dict(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False),
        dict(maximize=False, foreach=None, differentiable=False, fused=None),
    )

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            momentum = group["momentum"]
            lists = step_lists(self, group, ("momentum_buffer",) if momentum != 0 else ())
            if lists is not None:
                if lists[0]:
                    _fused(*lists[:2], lists[2] if momentum != 0 else [], False, **_options(self, group))
                continue
            params, grads, buffers = [], [], []
            for p in group["params"]:
                if p.grad is not None:
                    params.append(p)
                    grads.append(p.grad)
                    if momentum != 0:
                        buffers.append(self.state[p].get("momentum_buffer"))
            if not params:
                continue
            sgd(params, grads, buffers, differentiable=group["differentiable"], **_options(self, group))
            if momentum != 0:
                for p, b in zip(params, buffers):
                    if b is not None:
                        self.state[p]["momentum_buffer"] = b
        return loss


_RULE = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")  # numbers first


def _options(optimizer, group):
    rule = scale_of(optimizer)
    for name in _RULE:
        rule[name] = group[name]
    return rule


def _fused(params, grads, buffers, first, **rule):
    """All parameters in one call."""
    for name in _RULE[:4]:
        rule[name] = float(rule[name])
    tessera._fused_sgd_(params, grads, buffers, is_first_step=first, **rule)


def sgd(
    params,
    d_p_list,
    momentum_buffer_list,
    has_sparse_grad=False,
    foreach=None,
    fused=None,
    grad_scale=None,
    found_inf=None,
    *,
    weight_decay,
    momentum,
    lr,
    dampening,
    nesterov,
    maximize,
    differentiable=False,
):
    """One step on lists of parameters and gradients; None entries of momentum_buffer_list (empty without momentum) are
    created.
    """
    if (
        not differentiable
        and fused_ready(lr, params, d_p_list)
        and all(b is None for b in momentum_buffer_list) | all(b is not None for b in momentum_buffer_list)
    ):
        first = bool(momentum_buffer_list) and momentum_buffer_list[0] is None
        if first:
            if found_inf is not None and bool(found_inf):
                return  # buffers are made in the first step that is done
            momentum_buffer_list[:] = [tessera.empty_like(g) for g in d_p_list]
        _fused(
            params,
            d_p_list,
            momentum_buffer_list,
            first,
            weight_decay=weight_decay,
            momentum=momentum,
            lr=lr,
            dampening=dampening,
            nesterov=nesterov,
            maximize=maximize,
            grad_scale=grad_scale,
            found_inf=found_inf,
        )
        return
    if not take_scale(d_p_list, grad_scale, found_inf):
        return
    for i, (p, grad) in enumerate(zip(params, d_p_list)):
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = grad.add(p, alpha=weight_decay)
        if momentum != 0:
            buf = momentum_buffer_list[i]
            if buf is None:
                buf = momentum_buffer_list[i] = grad.detach().clone()
            else:
                buf.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buf, alpha=momentum) if nesterov else buf
        if isinstance(lr, tessera.Tensor):
            p.add_(grad * -lr if differentiable else grad * (-lr).to(grad.dtype))
        else:
            p.add_(grad, alpha=-lr)
