"""Which part of a tensor a process has."""

from tessera.distributed.tensor.placement_types import _StridedShard, part_of

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
    from tessera.distributed.tensor.placement_types import Shard

    return tuple(Shard(p.dim + ndim) if type(p) is Shard and p.dim < 0 else p for p in placements)


def length_before(length, dim, placements, sizes, coordinate, mesh_dim):
    """Length along a tensor's dimension of what the mesh dimension `mesh_dim` cuts: what those before it have left."""
    for at in range(mesh_dim):
        if placements[at].is_shard(dim):
            length = part_of(length, sizes[at], coordinate[at])[0]
    return length


def compute_local_shape_and_global_offset(global_shape, mesh, placements):
    """(shape, offset) of this process's part of a tensor of `global_shape`: both are tuples, offset () and shape (0,)
    for a process that is not of the mesh. Raises: NotImplementedError for strided shards.
    """
    coordinate, shape, offset = mesh.get_coordinate(), list(global_shape), [0] * len(global_shape)
    if coordinate is None:
        return (0,), ()
    for at, placement in enumerate(normalized(placements, len(shape))):
        if isinstance(placement, _StridedShard) and placement.split_factor > 1:
            raise NotImplementedError("the offset of a strided shard is not one number")
        if placement.is_shard():
            shape[placement.dim], start = part_of(shape[placement.dim], mesh.size(at), coordinate[at])
            offset[placement.dim] += start
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
