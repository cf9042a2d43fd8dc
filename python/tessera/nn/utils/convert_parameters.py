"""Parameters as one vector, and back."""

from itertools import accumulate

import tessera

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """All parameters, flattened, in one 1-D tensor."""
    return tessera.cat([p.reshape(-1) for p in _on_one_device(parameters)])


def vector_to_parameters(vec, parameters):
    """Gives the parameters the values of `vec`; their data then shares its memory. TypeError if it is no tensor."""
    if not isinstance(vec, tessera.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {tessera.typename(vec)}")
    parameters = _on_one_device(parameters)
    for p, end in zip(parameters, accumulate(p.numel() for p in parameters)):
        p.data = vec[end - p.numel() : end].view_as(p).data


def _on_one_device(parameters):
    """The list of them. TypeError if they are on different devices."""
    parameters = list(parameters)
    if len({p.get_device() if p.is_cuda else -1 for p in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return parameters
