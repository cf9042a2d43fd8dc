"""What operators do to DTensors. Values are always those of the whole; how they come about is decided here."""

import threading

import tessera
from tessera._ops import Tag
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset
from tessera.distributed.tensor.placement_types import Replicate, Shard
from tessera.utils._pytree import tree_flatten, tree_map, tree_unflatten

# One part makes one part of the result, whatever the numbers are, and sums of parts make the sum.
_PARTWISE = frozenset(
    "alias clone contiguous detach empty_like full_like lift_fresh ones_like rand_like randn_like zeros_like _to_copy "
    "zero_ fill_ copy_ normal_ uniform_ bernoulli_ native_dropout".split()
)
_LINEAR = frozenset("alias clone contiguous detach _to_copy neg".split())
_MOVING = frozenset("t transpose permute unsqueeze".split())


class _State(threading.local):
    plain_are_copies = False  # plain tensors beside DTensors count as copies


def _moved_dims(name, ndim, args):
    """For each dimension of the result the one of the input that it is; None for a new one."""
    dims = list(range(ndim))
    if name == "t":
        return dims[::-1]
    if name == "permute":
        return [d % ndim for d in args[1]]
    if name == "transpose":
        a, b = (d % max(ndim, 1) for d in args[1:3])
        if ndim:
            dims[a], dims[b] = dims[b], dims[a]
        return dims
    dims.insert(args[1] % (ndim + 1), None)
    return dims


def _move(wrap, func, name, tensor, args, kwargs):
    spec = tensor._spec
    dims = _moved_dims(name, tensor.dim(), args)
    local = func(tensor._local_tensor, *args[1:], **kwargs)
    placements = [Shard(dims.index(p.dim)) if p.is_shard() else p for p in spec.placements]
    shape = [1 if d is None else spec.shape[d] for d in dims]
    strides = []
    for at, d in enumerate(dims):
        at_end = at + 1 == len(dims)
        strides.append(spec.strides[d] if d is not None else 1 if at_end else spec.shape[dims[at + 1]] * 1)
    for at in range(len(dims)):
        if dims[at] is None and at + 1 < len(dims):
            strides[at] = shape[at + 1] * strides[at + 1]
    return wrap(local, DTensorSpec(spec.mesh, tuple(placements), tuple(shape), tuple(strides)))


def _whole(tensor):
    """The whole of a DTensor, plain."""
    spec = tensor._spec
    copies = (Replicate(),) * spec.mesh.ndim
    return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, copies)


def _alike(func, name, tensors):
    """The spec that the results of an elementwise operator have if it works on parts; None if it has to see wholes."""
    first = next((t for t in tensors if t.dim()), tensors[0])
    spec = first._spec
    if spec.is_replicated() or any(
        t.shape != first.shape or t._spec.placements != spec.placements or t.stride() != first.stride()
        for t in tensors
        if t.dim() or not t._spec.is_replicated()
    ):
        return None
    if name not in _PARTWISE and Tag.pointwise not in func.tags:
        return None
    if any(p.is_partial() for p in spec.placements) and name not in _LINEAR:
        return None
    return spec


def _in_parts(wrap, func, spec, tensors, leaves, structure, kind):
    local = [leaf._local_tensor if isinstance(leaf, kind) else leaf for leaf in leaves]
    args, kwargs = tree_unflatten(local, structure)
    out = func(*args, **kwargs)
    by_part = {id(t._local_tensor): t for t in tensors}
    sample = tessera.empty_strided(spec.shape, spec.strides, device="meta")

    def wrapped(value):
        if not isinstance(value, tessera.Tensor):
            return value
        if id(value) in by_part:
            return by_part[id(value)]
        strides = spec.strides if value.stride() == tensors[0]._local_tensor.stride() else sample.contiguous().stride()
        return wrap(value, DTensorSpec(spec.mesh, spec.placements, spec.shape, tuple(strides)))

    return tree_map(wrapped, out)


def _written(func, args, kwargs):
    """The arguments that an operator writes to."""
    arguments = func._schema.arguments
    found = [v for a, v in zip(arguments, args) if a.is_write]
    found += [kwargs[a.name] for a in arguments if a.is_write and a.name in kwargs]
    return tree_flatten(found)[0]


def _put_back(tensor, whole):
    spec = tensor._spec
    copies = (Replicate(),) * spec.mesh.ndim
    part = redistribute_local(whole, spec.shape, spec.mesh, copies, spec.placements)
    if part is not tensor._local_tensor:
        tensor._local_tensor.copy_(part)


def _as_wholes(wrap, func, tensors, args, kwargs, leaves, structure, kind):
    mesh = tensors[0]._spec.mesh
    written = [t for t in _written(func, args, kwargs) if isinstance(t, kind)]
    for tensor in written:
        if tensor.__dict__.get("_is_copy_of_view"):
            raise NotImplementedError(f"{func} would write to a view of a DTensor that is cut where the view cuts")
    wholes = {id(t): _whole(t) for t in tensors}
    plain = [wholes[id(leaf)] if isinstance(leaf, kind) else leaf for leaf in leaves]
    plain_args, plain_kwargs = tree_unflatten(plain, structure)
    out = func(*plain_args, **plain_kwargs)
    for tensor in written:
        _put_back(tensor, wholes[id(tensor)])
    by_whole = {id(wholes[id(t)]): t for t in reversed([*tensors, *written])}
    is_view = any(r.alias_info is not None and not r.is_write for r in func._schema.returns)
    cut = is_view and not all(t._spec.is_replicated() for t in tensors)

    def wrapped(value):
        if not isinstance(value, tessera.Tensor):
            return value
        if id(value) in by_whole:
            return by_whole[id(value)]
        made = wrap(value, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, tuple(value.shape), tuple(value.stride())))
        if cut:
            made._is_copy_of_view = True
        return made

    return tree_map(wrapped, out)


def dispatch(kind, wrap, func, args, kwargs):
    """Calls an operator with DTensors.

    Raises: RuntimeError for plain tensors of one dimension or more among the arguments, and for tensors of several
        meshes.
    """
    leaves, structure = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, kind)]
    mesh = tensors[0]._spec.mesh
    for leaf in leaves:
        if isinstance(leaf, kind):
            if leaf._spec.mesh != mesh:
                raise RuntimeError(f"{func}: got DTensors of different meshes, {mesh} and {leaf._spec.mesh}")
        elif isinstance(leaf, tessera.Tensor) and leaf.dim() and not _State.plain_are_copies:
            raise RuntimeError(
                f"{func}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                f"calling distributed operators!"
            )
    name = func.overloadpacket.__name__
    if name in _MOVING and not kwargs and len(tensors) == 1:
        return _move(wrap, func, name, args[0], args, kwargs)
    plain = any(isinstance(leaf, tessera.Tensor) and leaf.dim() and not isinstance(leaf, kind) for leaf in leaves)
    spec = None if plain else _alike(func, name, tensors)
    written = _written(func, args, kwargs)
    if spec is None and not plain and written and isinstance(written[0], kind) and Tag.pointwise in func.tags:
        # In-place: the others come to where it lies, if they have its shape.
        to = written[0]
        if all(t.shape == to.shape or not t.dim() for t in tensors) and not any(p.is_partial() for p in to.placements):
            leaves = [_brought(wrap, leaf, to) if isinstance(leaf, kind) and leaf.dim() else leaf for leaf in leaves]
            tensors = [leaf for leaf in leaves if isinstance(leaf, kind)]
            spec = _alike(func, name, tensors)
    if spec is not None:
        return _in_parts(wrap, func, spec, tensors, leaves, structure, kind)
    return _as_wholes(wrap, func, tensors, args, kwargs, leaves, structure, kind)


def _brought(wrap, tensor, to):
    if tensor._spec.placements == to._spec.placements:
        return tensor
    spec, wanted = tensor._spec, to._spec.placements
    local = redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, wanted)
    return wrap(local, DTensorSpec(spec.mesh, wanted, spec.shape, to._spec.strides))


def local_shape(spec):
    """The shape of this process's part."""
    return compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)[0]
