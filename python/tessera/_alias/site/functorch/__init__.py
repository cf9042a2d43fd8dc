"""The older name of `torch.func`, in programs that run under `python -m tessera`."""

import functools
import warnings

import torch
import torch._functorch.make_functional as _functional
from torch._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers
from torch.fx.experimental.proxy_tensor import make_fx


def _older(name, newer, owner=torch.func):
    """The function under its older name, whose calls warn."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def call(*args, **kwargs):
        warnings.warn(
            f"We've integrated functorch into PyTorch: `functorch.{name}` is deprecated. Please use `{newer}` instead",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return call


functionalize = _older("functionalize", "torch.func.functionalize")
grad = _older("grad", "torch.func.grad")
grad_and_value = _older("grad_and_value", "torch.func.grad_and_value")
hessian = _older("hessian", "torch.func.hessian")
jacfwd = _older("jacfwd", "torch.func.jacfwd")
jacrev = _older("jacrev", "torch.func.jacrev")
jvp = _older("jvp", "torch.func.jvp")
vjp = _older("vjp", "torch.func.vjp")
vmap = _older("vmap", "torch.vmap")
make_functional = _older("make_functional", "torch.func.functional_call", _functional)
make_functional_with_buffers = _older("make_functional_with_buffers", "torch.func.functional_call", _functional)
combine_state_for_ensemble = _older("combine_state_for_ensemble", "torch.func.stack_module_state", _functional)

__version__ = str(torch.__version__)
__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]
