"""What many layers are made of.

A weight with a bias, the first values of both, descriptions of options that are not the usual ones.
"""

import math

import tessera
from tessera.nn import init
from tessera.nn.parameter import Parameter, UninitializedParameter


def new_parameters(module, device, dtype, **shapes):
    """Registers parameters without values; a shape of None registers that there is none."""
    for name, shape in shapes.items():
        module.register_parameter(
            name, None if shape is None else Parameter(tessera.empty(shape, device=device, dtype=dtype))
        )


def lazy_parameters(module, device, dtype, *names):
    """Registers parameters whose shapes are not known yet."""
    for name in names:
        setattr(module, name, UninitializedParameter(device=device, dtype=dtype))


def draw_uniform(bound, *tensors):
    """Draws tensors from [-bound, bound); None is no tensor."""
    for tensor in tensors:
        if tensor is not None:
            init.uniform_(tensor, -bound, bound)


def draw_affine(weight, bias):
    """Draws both from +-1 / sqrt(inputs of one output)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))  # whose bound is that, rounded as documented
    inputs = math.prod(weight.shape[1:])
    draw_uniform(1 / math.sqrt(inputs) if inputs else 0, bias)


def described(head, values, **usual):
    """`head, name=value ...` with the values that are not the usual ones; a name without a value is as usual."""
    return ", ".join(
        [head, *(f"{name}={values[name]}" for name, plain in usual.items() if values.get(name, plain) != plain)]
    )
