"""SparseAdam: Adam that touches only the rows of a sparse gradient."""

import tessera

from .optimizer import Optimizer, check, check_lr, constructor, run_closure

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: moments and parameters change only where the gradient has entries. RuntimeError for a
    dense gradient, ValueError for a sparse parameter.
    """

    _steps_are_tensors = False
    _checks = {
        "lr": lambda lr, options: (check_lr(lr), check(lr > 0.0, "learning rate", lr)),
        "eps": lambda eps, options: check(eps > 0.0, "epsilon value", eps),
    }

    __init__ = constructor(
        dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False),
    )

    def _begin(self):
        sparse = [
            [g, i] for g, group in enumerate(self.param_groups) for i, p in enumerate(group["params"]) if p.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    @tessera.no_grad()
    def step(self, closure=None):
        """Does one step."""
        loss = run_closure(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not p.grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = tessera.zeros_like(p, memory_format=tessera.preserve_format)
                    state["exp_avg_sq"] = tessera.zeros_like(p, memory_format=tessera.preserve_format)
                state["step"] += 1
                _update(p, p.grad, state, group)
        return loss


def _update(p, grad, state, group):
    beta1, beta2 = group["betas"]
    t = state["step"]
    grad = (-grad if group["maximize"] else grad).coalesce()
    rows, values = grad._indices(), grad._values()
    if values.numel() == 0:
        return
    # New rows of the averages, and steps of the parameter's: few beside the table, but many for caches.
    m, v = state["exp_avg"], state["exp_avg_sq"]
    places = rows.unbind()
    numer = m[places].lerp_(values, 1 - beta1)
    m.index_put_(places, numer)
    denom = v[places].mul_(beta2).addcmul_(values, values, value=1 - beta2)
    v.index_put_(places, denom)
    step_size = group["lr"] * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
    step = numer.div_(denom.sqrt_().add_(group["eps"])).mul_(-step_size)
    p.add_(tessera._sparse_coo_tensor_unsafe(rows, step, p.shape, is_coalesced=True))
