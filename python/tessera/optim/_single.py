"""Base of the optimizers whose step is a formula of one parameter."""

import tessera

from ._lists import joined
from .optimizer import (
    Optimizer,
    _use_grad_for_differentiable,
    decayed,
    dense_parameters,
    new_step,
    run_closure,
)


class SingleTensorOptimizer(Optimizer):
    """A subclass names the tensors of a parameter's `_state`, which begin as zeros of its shape, and defines
    `_update(p, grad, state, group)`; state["step"] is counted here.
    """

    _state: tuple = ()

    def _new_state(self, p, group):
        return {name: zeros_like(p) for name in self._state}

    def _update(self, p, grad, state, group):
        raise NotImplementedError

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            entries = list(dense_parameters(self, group))
            for p, _, state in entries:
                if not state:
                    state["step"] = new_step(p, group)
                    state.update(self._new_state(p, group))
            for p, grad, state in joined(entries, group):
                state["step"] += 1
                if group.get("decoupled_weight_decay") and group["weight_decay"] != 0:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    grad = -grad if group["maximize"] else grad
                else:
                    grad = decayed(grad, p, group)
                self._update(p, grad, state, group)
        return loss


def zeros_like(p):
    """State of a parameter's shape and strides."""
    return tessera.zeros_like(p, memory_format=tessera.preserve_format)
