"""What many layers are made of: parameters without values, named first values."""

import math

import tessera
from tessera.nn import init
from tessera.nn.parameter import Parameter, UninitializedParameter

from .module import _global_parameter_registration_hooks, _own_register_parameter


def new_parameters(module, device, dtype, **shapes):
    """Registers parameters without values; a shape of None registers that there is none."""
    # nobody looks on: what register_parameter would check holds for the names and tensors made here
    unseen = type(module).register_parameter is _own_register_parameter and not _global_parameter_registration_hooks
    register = module._parameters.__setitem__ if unseen else module.register_parameter
    for name, shape in shapes.items():
        register(name, None if shape is None else Parameter(tessera.empty(shape, device=device, dtype=dtype)))


def lazy_parameters(module, device, dtype, *names):
    """Registers parameters whose shapes are not known yet."""
    for name in names:
        setattr(module, name, UninitializedParameter(device=device, dtype=dtype))


def _uniform(tensor, inputs):
    """U(-b, b) with b = 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs) if inputs else 0
    init.uniform_(tensor, -bound, bound)


# Name -> function of a parameter and its layer.
FIRST_VALUES = {
    "ones": lambda tensor, module: init.ones_(tensor),
    "zeros": lambda tensor, module: init.zeros_(tensor),
    "init": lambda tensor, module: init.constant_(tensor, module.init),  # the option of that name
    # uniform in +-1 / sqrt(inputs of one output), of the weight (rounded as documented) and of what goes with it
    "fan_in": lambda tensor, module: init.kaiming_uniform_(tensor, a=math.sqrt(5)),
    "weight_fan_in": lambda tensor, module: _uniform(tensor, math.prod(module.weight.shape[1:])),
    "in1_features": lambda tensor, module: _uniform(tensor, module.in1_features),
    "hidden_size": lambda tensor, module: _uniform(tensor, max(module.hidden_size, 0)),
    "xavier_uniform": lambda tensor, module: init.xavier_uniform_(tensor),
    "xavier_normal": lambda tensor, module: init.xavier_normal_(tensor),
}
