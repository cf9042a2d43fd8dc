"""Parameters as one vector, and back."""

import tessera

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """All parameters, flattened, in one 1-D tensor."""
    parts, device = [], None
    for p in parameters:
        device = _check_param_device(p, device)
        parts.append(p.reshape(-1))
    return tessera.cat(parts)


def vector_to_parameters(vec, parameters):
    """Gives the parameters the values of `vec`; their data then shares its memory. TypeError if it is no tensor."""
    if not isinstance(vec, tessera.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {tessera.typename(vec)}")
    at, device = 0, None
    for p in parameters:
        device = _check_param_device(p, device)
        n = p.numel()
        p.data = vec[at:at + n].view_as(p).data
        at += n


def _check_param_device(param, old):
    """The device of the parameters so far. TypeError if this one is elsewhere."""
    device = param.get_device() if param.is_cuda else -1
    if old is not None and device != old:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return device
