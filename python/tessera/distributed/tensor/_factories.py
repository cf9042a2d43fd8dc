"""DTensors of given or random numbers."""

import tessera
from tessera.distributed.device_mesh import _mesh_resources
from tessera.distributed.tensor._api import _placements_for, _wrap
from tessera.distributed.tensor._operators import local_shape
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import default_strides
from tessera.distributed.tensor.placement_types import Replicate

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _spec(size, device_mesh, placements):
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    mesh = _mesh_resources.get_current_mesh() if device_mesh is None else device_mesh
    if placements is not None:
        assert len(placements) == mesh.ndim, f"{len(placements)} placements for a mesh of {mesh.ndim} dimensions"
    return DTensorSpec(mesh, _placements_for(placements, mesh, len(size)), size, default_strides(size))


def _made(function, size, dtype, layout, requires_grad, device_mesh, placements, *values):
    if layout != tessera.strided:
        raise NotImplementedError(f"DTensors are strided, got layout={layout}")
    spec = _spec(size, device_mesh, placements)
    local = function(local_shape(spec), *values, dtype=dtype, device=spec.mesh.device_type)
    return _wrap(local, spec, requires_grad)


def _drawn(function, size, dtype, layout, requires_grad, device_mesh, placements):
    """Every process draws the whole, from generators in the same state, and keeps its part."""
    whole = _made(function, size, dtype, layout, False, device_mesh, None)
    spec = _spec(size, device_mesh, placements)
    copies = (Replicate(),) * spec.mesh.ndim
    return _wrap(
        redistribute_local(whole._local_tensor, spec.shape, spec.mesh, copies, spec.placements), spec, requires_grad
    )


_PARAMETERS = """

    Args:
        size: numbers, or one sequence.
        dtype: None: the default dtype.
        layout: strided.
        requires_grad: the result is a leaf that wants a gradient.
        device_mesh: DeviceMesh; None: that of the `with` block around.
        placements: one for each dimension of the mesh; None: copies.

    Raises: AssertionError for a number of placements that is not the mesh's number of dimensions.
    """


def zeros(*size, requires_grad=False, dtype=None, layout=tessera.strided, device_mesh=None, placements=None):
    """A DTensor of zeros; each process makes its part."""
    return _made(tessera.zeros, size, dtype, layout, requires_grad, device_mesh, placements)


def ones(*size, dtype=None, layout=tessera.strided, requires_grad=False, device_mesh=None, placements=None):
    """A DTensor of ones; each process makes its part."""
    return _made(tessera.ones, size, dtype, layout, requires_grad, device_mesh, placements)


def empty(*size, dtype=None, layout=tessera.strided, requires_grad=False, device_mesh=None, placements=None):
    """A DTensor of whatever lies in memory; each process makes its part."""
    return _made(tessera.empty, size, dtype, layout, requires_grad, device_mesh, placements)


def full(
    size, fill_value, *, dtype=None, layout=tessera.strided, requires_grad=False, device_mesh=None, placements=None
):
    """A DTensor of one number; each process makes its part. `dtype`: None: that of the number."""
    return _made(tessera.full, (size,), dtype, layout, requires_grad, device_mesh, placements, fill_value)


def rand(*size, requires_grad=False, dtype=None, layout=tessera.strided, device_mesh=None, placements=None):
    """A DTensor of numbers drawn from [0, 1); generators have to be in the same state in all processes."""
    return _drawn(tessera.rand, size, dtype, layout, requires_grad, device_mesh, placements)


def randn(*size, requires_grad=False, dtype=None, layout=tessera.strided, device_mesh=None, placements=None):
    """A DTensor of numbers of the normal distribution; generators have to be in the same state in all processes."""
    return _drawn(tessera.randn, size, dtype, layout, requires_grad, device_mesh, placements)


for _function in (zeros, ones, empty, full, rand, randn):
    _function.__doc__ = (_function.__doc__ or "") + _PARAMETERS
