"""What operators do to DTensors. Values are always those of the whole; how they come about is decided here."""

import functools
import threading
import warnings

import tessera
from tessera import _C
from tessera._ops import Tag
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed.tensor import _rules as rules
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset, default_strides
from tessera.distributed.tensor.placement_types import Replicate
from tessera.utils._pytree import tree_flatten, tree_map, tree_unflatten

_OURS = ("aten", "prims", "c10d", "_c10d_functional", "profiler")


class _State(threading.local):
    plain_are_copies = False  # plain tensors beside DTensors count as copies


special = {}  # {operator's name: function(wrap, func, args, kwargs)} that a context has put in place of rules


def _whole(tensor):
    """The whole of a DTensor, plain."""
    spec = tensor._spec
    copies = (Replicate(),) * spec.mesh.ndim
    return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, copies)


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


def _named(func, args, kwargs):
    """The arguments by name, in the order of the schema."""
    named = {}
    for at, argument in enumerate(func._schema.arguments):
        if at < len(args):
            named[argument.name] = args[at]
        elif argument.name in kwargs:
            named[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return named


def _planned(func, name, leaves, structure, mesh, kind):
    """The Plan of a call, None if there is none: the wholes have to come together."""
    rule = rules.rule_of(func, name)
    if rule is None:
        return None
    specs = [leaf._spec if isinstance(leaf, kind) else leaf for leaf in leaves]
    metas = [
        tessera.empty_strided(leaf._spec.shape, leaf._spec.strides, dtype=leaf.dtype, device="meta")
        if isinstance(leaf, kind)
        else leaf
        for leaf in leaves
    ]
    meta_args, meta_kwargs = tree_unflatten(metas, structure)
    written = {id(t) for t in _written(func, meta_args, meta_kwargs)}
    meta_kwargs = {key: "meta" if key == "device" and v is not None else v for key, v in meta_kwargs.items()}
    outs = [out for out in tree_flatten(func(*meta_args, **meta_kwargs))[0] if isinstance(out, tessera.Tensor)]
    if not outs:
        return None
    args, kwargs = tree_unflatten(specs, structure)
    tensors = [s for s in specs if isinstance(s, DTensorSpec)]
    places = [at for at, m in enumerate(m for m in metas if isinstance(m, tessera.Tensor)) if id(m) in written]
    call = rules.Call(func, name, _named(func, args, kwargs), tensors, outs, mesh, (args, kwargs))
    return rules.plan(call, rule, places)


def _key(leaf, kind):
    return (leaf._spec, leaf.dtype) if isinstance(leaf, kind) else (type(leaf), leaf)


@functools.lru_cache(maxsize=4096)
def _remembered(func, name, _keys, structure, mesh, leaves):
    return _planned(func, name, leaves.value, structure, mesh, leaves.kind)


class _Unseen:
    """What goes past a cache: all are equal."""

    def __init__(self, value, kind):
        self.value, self.kind = value, kind

    def __eq__(self, other):
        return isinstance(other, _Unseen)

    def __hash__(self):
        return 0


def _plan_for(func, name, leaves, structure, mesh, kind):
    if func in rules.registered:
        return _planned(func, name, leaves, structure, mesh, kind)
    try:
        keys = tuple(_key(leaf, kind) for leaf in leaves)
        hash(keys)
    except TypeError:
        return _planned(func, name, leaves, structure, mesh, kind)
    unseen = _Unseen(leaves, kind)
    try:
        return _remembered(func, name, keys, structure, mesh, unseen)
    finally:
        unseen.value = None


def _moved(tensor, placements):
    spec = tensor._spec
    return redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, placements)


def _viewed(local, shape):
    try:
        return local.view(shape)
    except RuntimeError:
        return local.contiguous().view(shape)


def _in_parts(wrap, func, name, plan, leaves, structure, kind):
    """Makes a call as planned."""
    places, parts, at = {}, [], 0
    for leaf in leaves:
        if isinstance(leaf, kind):
            part = _moved(leaf, plan.ins[at])
            if part is leaf._local_tensor:
                places.setdefault(id(part), leaf)
            leaf, at = part, at + 1
        parts.append(leaf)
    args, kwargs = tree_unflatten(parts, structure)
    if name in rules.SIZES or name == "squeeze":
        shape = local_shape(rules.result_spec(plan, 0))
    if plan.run is not None:
        out = plan.run(plan.call, plan.ins[0], func, args, kwargs)
    elif name in ("view", "_unsafe_view", "squeeze") and (name == "squeeze" or "size" in plan.call.args):
        out = _viewed(args[0], shape)
    elif name in rules.SIZES:
        key = [a.name for a in func._schema.arguments].index(rules.SIZES[name])
        more = args[key + 1 :]
        if name == "new_empty_strided" and tuple(shape) != tuple(args[key]):
            more = (default_strides(shape), *more[1:])
        out = func(*args[:key], shape, *more, **kwargs)
    else:
        out = func(*args, **kwargs)
    count = iter(range(len(plan.outs)))

    def wrapped(value):
        if not isinstance(value, tessera.Tensor):
            return value
        spec = rules.result_spec(plan, next(count))
        here = places.get(id(value))
        return here if here is not None else wrap(value, spec)

    made = tree_map(wrapped, out)
    if name in rules._VIEWS and plan.ins[0] != leaves[0]._spec.placements:
        made._is_copy_of_view = True
    return made


def _drawn(func, leaves, structure):
    """Random numbers for a tensor: every process draws those of the whole, from generators in the same state, and
    keeps its part.
    """
    tensor = leaves[0]
    whole = tensor._local_tensor.new_empty(tensor._spec.shape)
    args, kwargs = tree_unflatten([whole, *leaves[1:]], structure)
    func(*args, **kwargs)
    _put_back(tensor, whole)
    return tensor


def _equal(a, b):
    placements = a._spec.placements
    if a.shape != b.shape:
        return False
    if any(p.is_partial() for p in placements):
        placements = (Replicate(),) * len(placements)
    same = tessera.tensor(float(tessera.equal(_moved(a, placements), _moved(b, placements))))
    mesh = a._spec.mesh
    for at in range(mesh.ndim):
        if placements[at].is_shard() and mesh.size(at) > 1:
            same = collectives.wait_tensor(collectives.all_reduce(same.to(a.device), "min", (mesh, at)))
    return bool(same)


def _copies(wrap, leaves, mesh, kind):
    """The arguments with plain tensors as DTensors of which every process has a copy."""
    copies = (Replicate(),) * mesh.ndim
    return [
        wrap(leaf, DTensorSpec(mesh, copies, tuple(leaf.shape), tuple(leaf.stride())))
        if isinstance(leaf, tessera.Tensor) and not isinstance(leaf, kind)
        else leaf
        for leaf in leaves
    ]


def dispatch(kind, wrap, func, args, kwargs):
    """Calls an operator with DTensors.

    Raises: RuntimeError for plain tensors of several elements among the arguments, and for tensors of several meshes;
        NotImplementedError for a program's operator without `register_sharding`.
    """
    name = func.overloadpacket.__name__
    if name in special:
        return special[name](wrap, func, args, kwargs)
    leaves, structure = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, kind)]
    mesh = tensors[0]._spec.mesh
    for leaf in leaves:
        if isinstance(leaf, kind):
            if leaf._spec.mesh != mesh:
                raise RuntimeError(f"{func}: got DTensors of different meshes, {mesh} and {leaf._spec.mesh}")
        elif isinstance(leaf, tessera.Tensor):
            if leaf.numel() == 1:
                if leaf.dim() and not _State.plain_are_copies:
                    warnings.warn(
                        "Found a non-scalar tensor with numel=1 and ndim!=0, which counts as copies in every process: "
                        "make it a scalar tensor or a DTensor",
                        stacklevel=3,
                    )
            elif not _State.plain_are_copies and _C._current_graph_task_id() == -1:
                raise RuntimeError(
                    f"{func}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                    f"calling distributed operators!"
                )
    if len(tensors) < sum(isinstance(leaf, tessera.Tensor) for leaf in leaves):
        leaves = _copies(wrap, leaves, mesh, kind)
        tensors = [leaf for leaf in leaves if isinstance(leaf, kind)]
        args, kwargs = tree_unflatten(leaves, structure)
    if func.namespace not in _OURS and func not in rules.registered:
        raise NotImplementedError(
            f"{func} has no rule for DTensors: give it one with tessera.distributed.tensor.experimental."
            f"register_sharding, or take to_local() of its arguments"
        )
    if mesh.get_coordinate() is None:
        return _outside(wrap, func, leaves, structure, kind)
    if name == "equal":
        return _equal(*tensors)
    if (
        Tag.nondeterministic_seeded in func.tags
        and name.endswith("_")
        and len(tensors) == 1
        and leaves[0] is tensors[0]
    ):
        return _drawn(func, leaves, structure)
    plan = _plan_for(func, name, leaves, structure, mesh, kind)
    if plan is not None:
        return _in_parts(wrap, func, name, plan, leaves, structure, kind)
    return _as_wholes(wrap, func, tensors, args, kwargs, leaves, structure, kind)


def _outside(wrap, func, leaves, structure, kind):
    """In a process that is not of the mesh: results without numbers."""
    mesh = next(leaf for leaf in leaves if isinstance(leaf, kind))._spec.mesh
    if func.overloadpacket.__name__ == "equal":
        return True
    copies = (Replicate(),) * mesh.ndim
    is_ours = [isinstance(leaf, kind) for leaf in leaves]
    try:  # for shapes alone
        whole = [x._local_tensor.new_empty(x.shape, device="meta") if o else x for x, o in zip(leaves, is_ours)]
        args, kwargs = tree_unflatten(whole, structure)
        out = func(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        whole = [x._local_tensor if o else x for x, o in zip(leaves, is_ours)]
        args, kwargs = tree_unflatten(whole, structure)
        out = func(*args, **kwargs)

    def outer(value):
        if not isinstance(value, tessera.Tensor):
            return value
        for leaf, inner, o in zip(leaves, whole, is_ours):
            if o and inner is value:
                return leaf
        spec = DTensorSpec(mesh, copies, tuple(value.shape), tuple(value.stride()))
        return wrap(tessera.zeros(0 if value.dim() else (), dtype=value.dtype, device=mesh.device_type), spec)

    return tree_map(outer, out)


def local_shape(spec):
    """The shape of this process's part."""
    return compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)[0]
