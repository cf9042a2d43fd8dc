"""Inputs that travel with a scripted module, packed small. Only scripted modules (`torch.jit`) can carry some."""

import collections

import tessera
from tessera._lazy import require

__all__ = [
    "InflatableArg",
    "augment_many_model_functions_with_bundled_inputs",
    "augment_model_with_bundled_inputs",
    "bundle_inputs",
    "bundle_large_tensor",
    "bundle_randn",
]

# Bytes of a tensor that is packed as it is.
MAX_RAW_TENSOR_SIZE = 16

InflatableArg = collections.namedtuple("InflatableArg", "value fmt fmt_fn", defaults=("{}", ""))
InflatableArg.__doc__ = """An input that is made when it is asked for.

value: what is stored; fmt: an expression with {} for the stored value; fmt_fn: or the source of a function with {} for
its name.
"""


def _check_scripted(model, inputs):
    import sys

    jit = sys.modules.get("tessera.jit")  # without it nothing has been scripted
    if jit is None or not isinstance(model, jit.ScriptModule):
        raise Exception(f"Only ScriptModule is supported, but got {type(model).__name__}.")
    groups = inputs.values() if isinstance(inputs, dict) else [inputs]
    for group in groups:
        if group is not None and not all(isinstance(entry, tuple) for entry in group):
            raise TypeError("inputs are a list of tuples, one for each call")


def _attach(model, inputs, receive_inflate_expr, info, skip_size_check):
    attach = require("jit._mobile.attach_inputs", "utils.bundled_inputs")
    return attach(model, inputs, receive_inflate_expr, info, skip_size_check)


def bundle_inputs(model, inputs, info=None, *, _receive_inflate_expr=None):
    """A copy of a scripted module with inputs for its methods.

    Args:
        model: a ScriptModule.
        inputs: a list of tuples of arguments for forward, or {method: such a list}.
        info: texts about the inputs: a list, or {method: list}.

    Raises: Exception for what is no ScriptModule, TypeError for inputs of another form.
    """
    _check_scripted(model, inputs)
    return _attach(model.copy(), inputs, _receive_inflate_expr, info, False)


def augment_model_with_bundled_inputs(model, inputs=None, _receive_inflate_expr=None, info=None, skip_size_check=False):
    """Adds inputs for forward to a scripted module itself; `bundle_inputs` says which.

    Args:
        skip_size_check: accept tensors that are stored as they are whatever their size is.
    """
    _check_scripted(model, inputs)
    _attach(model, inputs, _receive_inflate_expr, info, skip_size_check)


def augment_many_model_functions_with_bundled_inputs(
    model, inputs, _receive_inflate_expr=None, info=None, skip_size_check=False
):
    """Adds inputs for several methods, {method: list of tuples}, to a scripted module itself.

    Raises: Exception for no inputs.
    """
    _check_scripted(model, inputs)
    if not inputs:
        raise Exception("Please provide inputs for at least 1 function")
    _attach(model, inputs, _receive_inflate_expr, info, skip_size_check)


def bundle_randn(*size, dtype=None):
    """An input of random numbers, of which only the size is stored."""
    return InflatableArg(value=tessera.zeros(1, dtype=dtype).expand(*size), fmt="torch.randn_like({})")


def bundle_large_tensor(t):
    """A tensor that is stored as it is, whatever its size is."""
    return InflatableArg(value=t, fmt="{}")
