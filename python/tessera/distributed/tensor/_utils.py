"""Which part of a tensor a process has."""

from dataclasses import replace

from tessera.distributed.tensor.placement_types import Shard, _StridedShard, part_of

__all__ = ["compute_global_tensor_info", "compute_local_shape_and_global_offset", "default_strides", "normalized"]


def default_strides(shape):
    """Strides of a contiguous tensor."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def normalized(placements, ndim):
    """The placements with dimensions counted from the front."""
    return tuple(replace(p, dim=p.dim + ndim) if isinstance(p, Shard) and p.dim < 0 else p for p in placements)


def cut_order(placements):
    """The dimensions of the mesh in the order in which they cut: strided shards come after what is on their right.

    Raises: NotImplementedError for a strided shard without the cut that it follows.
    """
    late = [at for at, p in enumerate(placements) if isinstance(p, _StridedShard) and p.split_factor > 1]
    for at in late:
        if not any(p.is_shard(placements[at].dim) for p in placements[at + 1 :]):
            raise NotImplementedError(f"{placements[at]} follows no cut of a mesh dimension on its right")
    return [at for at in range(len(placements)) if at not in late] + late[::-1]


def length_before(length, dim, placements, sizes, coordinate, mesh_dim):
    """Length along a tensor's dimension of what the mesh dimension `mesh_dim` cuts: what those before it have left."""
    for at in cut_order(placements):
        if at == mesh_dim:
            break
        if placements[at].is_shard(dim):
            length = part_of(length, sizes[at], coordinate[at])[0]
    return length


def compute_local_shape_and_global_offset(global_shape, mesh, placements):
    """(shape, offset) of this process's part of a tensor of `global_shape`: both are tuples, offset () and shape (0,)
    for a process that is not of the mesh. Raises: NotImplementedError for strided shards without the cut that they
    follow.
    """
    coordinate, shape, offset = mesh.get_coordinate(), list(global_shape), [0] * len(global_shape)
    if coordinate is None:
        return (0,), ()
    placements = normalized(placements, len(shape))
    for at in cut_order(placements):
        if placements[at].is_shard():
            dim = placements[at].dim
            shape[dim], start = part_of(shape[dim], mesh.size(at), coordinate[at])
            offset[dim] += start
    return tuple(shape), tuple(offset)


def compute_global_tensor_info(tensor, mesh, placements):
    """(shape, strides), as lists, of the tensor of which `tensor` is an even part."""
    shape = list(tensor.shape)
    for at, placement in enumerate(normalized(placements, tensor.dim())):
        if placement.is_shard():
            if placement.dim >= tensor.dim():
                raise RuntimeError(f"{placement}: the tensor has {tensor.dim()} dimensions only")
            shape[placement.dim] *= mesh.size(at)
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
    strides = [0] * tensor.dim()
    for d, step in zip(order, default_strides([shape[d] for d in order])):
        strides[d] = step
    return shape, strides
