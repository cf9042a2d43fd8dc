"""Functions over the parts of DTensors, and plain tensors beside them."""

import contextlib
import functools

from tessera.distributed.tensor import _rules as rules
from tessera.distributed.tensor._api import DTensor
from tessera.distributed.tensor._operators import _State
from tessera.distributed.tensor.experimental._attention import context_parallel
from tessera.utils import _pytree

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextlib.contextmanager
def implicit_replication():
    """Inside the block plain tensors beside DTensors count as copies that every process has."""
    before, _State.plain_are_copies = _State.plain_are_copies, True
    try:
        yield
    finally:
        _State.plain_are_copies = before


def local_map(
    func=None,
    out_placements=None,
    in_placements=None,
    in_grad_placements=None,
    device_mesh=None,
    *,
    redistribute_inputs=False,
):
    """A function of parts as a function of DTensors; without `func` a decorator.

    Args:
        func: gets the local part of each DTensor, other arguments as they are.
        out_placements: how the result lies; a tuple of such for a tuple of results, None for what is no tensor.
        in_placements: how each (flattened) argument has to lie; None: any way.
        in_grad_placements: how the gradient of each lies; None: as the argument.
        device_mesh: of the results; None: that of the arguments.
        redistribute_inputs: arguments that lie otherwise are redistributed.

    Returns: a function; without DTensors among its arguments it gives plain results. Raises: ValueError for an argument
    that lies otherwise, AssertionError for a number of `out_placements` other than that of the results.
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves, structure = _pytree.tree_flatten(args)
        mesh, parts = device_mesh, []
        for at, leaf in enumerate(leaves):
            if not isinstance(leaf, DTensor):
                parts.append(leaf)
                continue
            mesh = mesh or leaf.device_mesh
            wanted = in_placements[at] if in_placements is not None else None
            if wanted is not None and tuple(wanted) != leaf.placements:
                if not redistribute_inputs:
                    raise ValueError(f"argument {at} lies as {leaf.placements}, but has to lie as {tuple(wanted)}")
                leaf = leaf.redistribute(placements=wanted)
            parts.append(leaf.to_local(grad_placements=in_grad_placements[at] if in_grad_placements else None))
        out = func(*_pytree.tree_unflatten(parts, structure), **kwargs)
        if not any(isinstance(leaf, DTensor) for leaf in leaves):
            return out
        results, shape = _pytree.tree_flatten(out)
        places = out_placements if isinstance(out, (tuple, list)) else (out_placements,)
        assert len(places) == len(results), f"{len(results)} results, but {len(places)} placements"
        for result, place in zip(results, places):
            assert place is None or hasattr(result, "dim"), f"placements {place} for {type(result).__name__}"
        made = [r if p is None else DTensor.from_local(r, mesh, p) for r, p in zip(results, places)]
        return _pytree.tree_unflatten(made, shape)

    return mapped


def register_sharding(op):
    """Decorator of a rule for how operators work on parts; it comes before the package's own.

    Args:
        op: OpOverload, or a list of them.

    The function gets the operator's arguments, with objects that have `ndim`, `shape` and `placements` in place of
    DTensors, and returns a list of what is possible along one dimension of a mesh: (placements of the results,
    placements of the arguments, None for those that are no tensors). Of these the one is taken for which the least has
    to be sent. Results are described by the operator's kernel for the device "meta".

        >>> import tessera
        >>> from tessera.distributed.tensor import Replicate, Shard
        >>> from tessera.distributed.tensor.experimental import register_sharding
        >>> @register_sharding(tessera.ops.aten.hardtanh.default)
        ... def rule(x, *bounds):
        ...     return [([p], [p, *(None for _ in bounds)]) for p in (Replicate(), *map(Shard, range(x.ndim)))]
    """

    def register(rule):
        for one in op if isinstance(op, (list, tuple)) else (op,):
            rules.registered[one] = rule
        return rule

    return register
