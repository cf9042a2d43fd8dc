"""The parts of vmap that other libraries use: they build their own containers of batched tensors with them."""

from tessera import Tensor, _C
from tessera.func import _vmap
from tessera.func._vmap import _name as _get_name
from tessera.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = ["Tensor", "tree_flatten", "tree_unflatten"]

_add_batch_dim = _C._func._add_batch_dim
_remove_batch_dim = _C._func._remove_batch_dim


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """An output outside of its level, with the batch at out_dim; None: it must not be batched (ValueError)."""
    if out_dim is None:
        if _C._func._is_batched(batched_output):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _process_batched_inputs(in_dims, args, func):
    """(size of the batch, dimension of each leaf, the leaves, their structure) of the arguments of a call."""
    leaves, dims, spec = _vmap._flat_in_dims(_get_name(func), in_dims, args)
    return _vmap._batch_size(_get_name(func), in_dims, leaves, dims), dims, leaves, spec


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments as the function sees them: leaves without the mapped dimension, in their structure."""
    inside = [a if d is None else _add_batch_dim(a, d, vmap_level) for a, d in zip(flat_args, flat_in_dims)]
    return tree_unflatten(inside, args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """The outputs outside of the level, with the batch at out_dims."""
    name = _get_name(func)
    outputs, spec = tree_flatten(batched_outputs)
    dims = _vmap._flat_out_dims(name, out_dims, outputs, spec)
    outside = [_vmap._unwrapped(name, vmap_level, batch_size, o, d) for o, d in zip(outputs, dims)]
    return tree_unflatten(outside, spec)


# A library whose containers are no plain trees (tensordict) puts steps of its own here; then calls go through them.
_STEPS = {name: globals()[name] for name in ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched")}


def _replaced():
    """Whether somebody has put another function in the place of a step."""
    return any(globals()[name] is not step for name, step in _STEPS.items())
