"""Modules as functions of their parameters, by the older names (`func.functional_call` is the newer one)."""

import copy

from tessera.func import functional_call, stack_module_state
from tessera.nn.modules.module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModuleWithBuffers(Module):
    """A module without a state of its own: `module(parameters, buffers, *args)`. Made by
    make_functional_with_buffers().
    """

    def __init__(self, stateless_model, param_names, buffer_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    @classmethod
    def _create_from(cls, model, disable_autograd_tracking=False):
        """(the functional module, its parameters, its buffers)."""
        parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        values = [
            p.detach().requires_grad_(p.requires_grad and not disable_autograd_tracking) for p in parameters.values()
        ]
        # Values live with the caller; what stays here has places for them alone.
        memo = {id(v): v.detach().to("meta") for v in (*parameters.values(), *buffers.values())}
        for name, parameter in parameters.items():
            memo[id(parameter)] = type(parameter)(parameter.detach().to("meta"), parameter.requires_grad)
        stateless = copy.deepcopy(model, memo)
        return cls(stateless, parameters, buffers), tuple(values), tuple(buffers.values())

    def forward(self, params, buffers, *args, **kwargs):
        """The module's output with these parameters and buffers, which are in the order of the names."""
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """The same for a module without buffers: `module(parameters, *args)`. Made by make_functional()."""

    @classmethod
    def _create_from(cls, model, disable_autograd_tracking=False):
        """(the functional module, its parameters)."""
        return super()._create_from(model, disable_autograd_tracking)[:2]

    def forward(self, params, *args, **kwargs):
        """The module's output with these parameters, which are in the order of the names."""
        return super().forward(params, (), *args, **kwargs)


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters): `function(parameters, *args)` is what the module gives with them.

    Args:
        model: Module without buffers.
        disable_autograd_tracking: the parameters do not require a gradient.

    Raises: RuntimeError for a module with buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model)"
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers): `function(parameters, buffers, *args)` is what the module gives with them.
    `disable_autograd_tracking`: the parameters do not require a gradient.
    """
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of several modules of one class, stacked along a new first dimension, for
    `vmap(function)`. Raises: RuntimeError for none, for different classes, and for different modes.
    """
    parameters, buffers = stack_module_state(models)
    function, _, _ = make_functional_with_buffers(models[0])
    return function, tuple(parameters.values()), tuple(buffers.values())
