"""What optimizers of other people import from `torch.optim.optimizer`: the choice of an implementation, small helpers,
and texts for docstrings. The optimizers of this library need none of it.
"""

import math

import tessera
from tessera.utils import _foreach_utils

__all__ = []

# Texts that stand in many docstrings, by the names under which they are imported.
_params_doc = """params (iterable): parameters, (name, parameter) pairs, or dicts of parameter groups"""
_maximize_doc = """maximize (bool, optional): go up the gradient instead of down (default: False)"""
_foreach_doc = """foreach (bool, optional): update all parameters by operators of lists (default: None, which chooses
            by the device)"""
_fused_doc = """fused (bool, optional): one kernel for the whole step, for floating-point parameters (default: None)"""
_capturable_doc = """capturable (bool, optional): the step can be recorded in a CUDA graph (default: False)"""
_differentiable_doc = """differentiable (bool, optional): autograd records the step (default: False)"""


def _get_capturable_supported_devices(supports_xla=True):
    """Types of devices on which a step may be `capturable`."""
    return ["cuda", "xpu", "hpu", tessera._C._get_privateuse1_backend_name(), *(("xla",) if supports_xla else ())]


def _may_be_fused(tensor):
    return tensor.is_floating_point() and tensor.device.type in _foreach_utils._get_fused_kernels_supported_devices()


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach): how parameters for which neither was chosen are updated. At most one is True."""
    known = (tessera.Tensor, tessera.nn.Parameter)
    if differentiable or not all(p is None or type(p) in known for p in params):
        return False, False
    there = [p for p in params if p is not None]
    fused = use_fused and all(map(_may_be_fused, there))
    devices = _foreach_utils._get_foreach_kernels_supported_devices()
    return fused, not fused and all(p.device.type in devices for p in there)


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    """RuntimeError for a parameter that a fused step can't update."""
    devices = [
        d for d in _foreach_utils._get_fused_kernels_supported_devices() if not (cuda_unsupported and d == "cuda")
    ]
    if p.device.type not in devices or not p.is_floating_point():
        raise RuntimeError(
            f"`fused=True` takes floating-point parameters on {', '.join(devices)}, but got {p.dtype} on {p.device}"
        )


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator of functions that update parameters, which torch.compile captures as they are: it returns them."""
    del single_tensor_fn
    return lambda function: function


def _stack_if_compiling(x):
    """A list of numbers as one tensor where torch.compile captures, as it is elsewhere."""
    return tessera.stack(x) if tessera.compiler.is_compiling() else x


def _dispatch_sqrt(x):
    """The square root of a tensor or of a number."""
    return x.sqrt() if isinstance(x, tessera.Tensor) else math.sqrt(x)


def _view_as_real(params, *state_and_grads):
    """Puts views of real and imaginary parts in place of complex parameters, and of what belongs to them."""
    for i, param in enumerate(params):
        if param.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = tessera.view_as_real(tensors[i])
