"""Clipping of gradients."""

import warnings

import tessera
from tessera import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_"]


def _gradients(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def _alike(tensors):
    """The tensors by device and dtype, which the functions of lists take at once."""
    groups = {}
    for t in tensors:
        groups.setdefault((t.device, t.dtype), []).append(t)
    return groups


@tessera.no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as if they were one vector, a 0-dim tensor (0. for none). RuntimeError for a non-finite
    one if error_if_nonfinite.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return tessera.tensor(0.0)
    device = tensors[0].device
    norms = [n for group in _alike(tensors).values() for n in tessera._foreach_norm(group, norm_type)]
    total = tessera.linalg.vector_norm(tessera.stack([n.to(device) for n in norms]), norm_type)
    if error_if_nonfinite and bool(tessera.logical_or(total.isnan(), total.isinf())):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            f"clipped. To disable this error and scale the "
            "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@tessera.no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Multiplies all gradients by min(1, max_norm / (total_norm + 1e-6)), in place."""
    coef = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if coef.device.type == "cpu" and bool(coef == 1):  # on other devices the host would have to wait for it
        return
    for (device, _), grads in _alike(_gradients(parameters)).items():
        tessera._foreach_mul_(grads, coef.to(device))


@tessera.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients in place so that the norm of all together is at most max_norm. Returns that norm before the
    scaling.
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        is_generator = hasattr(parameters, "__next__")
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Deprecated: use clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@tessera.no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clamps every element of the gradients to [-clip_value, clip_value], in place."""
    clip_value = float(clip_value)
    for grads in _alike(_gradients(parameters)).values():
        tessera._foreach_clamp_min_(grads, -clip_value)
        tessera._foreach_clamp_max_(grads, clip_value)
