"""Moves pieces between processes until a tensor lies as wanted."""

import tessera
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed.tensor._utils import cut_order, length_before
from tessera.distributed.tensor.placement_types import Replicate, _NormPartial, part_of

_EMPTY = {"sum": 0.0, "product": 1.0}


def _gather(local, dim, length, mesh, mesh_dim):
    """The whole of what was cut along `dim`, in pieces of equal length but for the last ones."""
    size = mesh.size(mesh_dim)
    if size == 1:
        return local
    longest = part_of(length, size, 0)[0]
    missing = longest - local.shape[dim]
    if missing:
        shape = list(local.shape)
        shape[dim] = missing
        local = tessera.cat([local, local.new_zeros(shape)], dim)
    moved = local.movedim(dim, 0).contiguous()
    whole = collectives.wait_tensor(collectives.all_gather_tensor(moved, 0, (mesh, mesh_dim)))
    return whole.narrow(0, 0, length).movedim(0, dim).contiguous()


def _cut(local, dim, mesh, mesh_dim):
    size, start = part_of(local.shape[dim], mesh.size(mesh_dim), mesh.get_coordinate()[mesh_dim])
    return local.narrow(dim, start, size).clone(memory_format=tessera.contiguous_format)


def _reduce(local, placement, mesh, mesh_dim):
    if mesh.size(mesh_dim) == 1:
        return local
    if isinstance(placement, _NormPartial):
        powers = collectives.all_reduce(local.abs().pow(placement.norm_type), "sum", (mesh, mesh_dim))
        return collectives.wait_tensor(powers).pow(1 / placement.norm_type)
    return collectives.wait_tensor(collectives.all_reduce(local.contiguous(), placement.reduce_op, (mesh, mesh_dim)))


def _reduce_and_cut(local, partial, shard, mesh, mesh_dim):
    uneven = local.shape[shard.dim] % mesh.size(mesh_dim)
    if uneven or mesh.size(mesh_dim) == 1 or isinstance(partial, _NormPartial):
        return _cut(_reduce(local, partial, mesh, mesh_dim), shard.dim, mesh, mesh_dim)
    moved = local.movedim(shard.dim, 0).contiguous()
    part = collectives.reduce_scatter_tensor(moved, partial.reduce_op, 0, (mesh, mesh_dim))
    return collectives.wait_tensor(part).movedim(0, shard.dim).contiguous()


def _as_partial(local, placement, mesh, mesh_dim):
    """What each process holds so that the reduction gives `local`."""
    if placement.reduce_op == "avg":
        return local
    if placement.reduce_op == "sum" and (local.dtype.is_floating_point or local.dtype.is_complex):
        return local / mesh.size(mesh_dim)
    if placement.reduce_op not in _EMPTY or mesh.get_coordinate()[mesh_dim] == 0:
        return local
    return tessera.full_like(local, _EMPTY[placement.reduce_op])


def _stays(at, now, wanted):
    """True if a mesh dimension keeps its placement, and no other one changes how the same dimension is cut."""
    if now[at] != wanted[at]:
        return False
    dim = now[at].dim if now[at].is_shard() else None
    return dim is None or all(
        now[other] == wanted[other] or not (now[other].is_shard(dim) or wanted[other].is_shard(dim))
        for other in range(len(now))
    )


def redistribute_local(local, shape, mesh, now, wanted):
    """The local part under the placements `wanted` of a tensor of global `shape` that lies as `now`.

    Raises: NotImplementedError for strided shards without the cut that they follow.
    """
    now = list(now)
    if now == list(wanted):
        return local
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return local
    sizes = [mesh.size(at) for at in range(len(now))]
    changing = [at for at in range(len(now)) if not _stays(at, now, wanted)]
    before = list(now)
    for at in reversed(cut_order(before)):
        if at in changing and now[at].is_shard():
            dim = now[at].dim
            length = length_before(shape[dim], dim, before, sizes, coordinate, at)
            local, now[at] = _gather(local, dim, length, mesh, at), Replicate()
    for at in cut_order(wanted):
        if at not in changing:
            continue
        if now[at].is_partial() and wanted[at].is_shard():
            local = _reduce_and_cut(local, now[at], wanted[at], mesh, at)
        elif now[at].is_partial() and now[at] != wanted[at]:
            local = _reduce(local, now[at], mesh, at)
            if wanted[at].is_partial():
                local = _as_partial(local, wanted[at], mesh, at)
        elif now[at].is_replicate() and wanted[at].is_shard():
            local = _cut(local, wanted[at].dim, mesh, at)
        elif now[at].is_replicate() and wanted[at].is_partial():
            local = _as_partial(local, wanted[at], mesh, at)
        now[at] = wanted[at]
    return local
