"""Hooks that step an optimizer as soon as a bucket has been reduced."""

import tessera
from tessera.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

__all__: list = []


def _step(state, params, gradients):
    """One step of the optimizers of these parameters, each of which has one of its own, with these gradients."""
    for param, gradient in zip(params, gradients):
        if id(param) not in state["params"]:
            continue
        if id(param) not in state["optimizers"]:
            # kept with its parameter, so that the number stays its own
            state["optimizers"][id(param)] = (param, state["class"]([param], *state["args"], **state["kwargs"]))
        kept, param.grad = param.grad, gradient.clone()
        state["optimizers"][id(param)][1].step()
        param.grad = kept


def fused_optimizer_hook(process_group, state, bucket):
    """Averages a bucket, then steps the optimizers of its parameters. Returns: a Future of the tensor."""
    params = bucket.parameters()

    def stepped(done):
        value = done.value()
        bucket.set_buffer(value)
        _step(state, params, bucket.gradients())
        return value

    return allreduce_hook(process_group, bucket).then(stepped)


class _OptimizerHookState:
    """A functional optimizer for `_hook_then_optimizer`, and the parameters that it steps (all if None)."""

    def __init__(self, functional_optim, params=None):
        self.functional_optimizer = functional_optim
        self.params_to_optimize = None if params is None else set(params)


def _hook_then_optimizer(hook, optimizer_state):
    """A hook that steps a functional optimizer with what another hook gives."""

    def both(state, bucket):
        def stepped(done):
            value = done.value()
            value = value[0] if isinstance(value, (list, tuple)) else value
            bucket.set_buffer(value)
            wanted = optimizer_state.params_to_optimize
            for gradient, param in zip(bucket.gradients(), bucket.parameters()):
                if wanted is None or param in wanted:
                    with tessera.no_grad():
                        optimizer_state.functional_optimizer.step_param(param, gradient)
            return value

        return hook(state, bucket).then(stepped)

    return both
