"""The parts of vmap that other libraries use: they build their own containers of batched tensors with them."""

from tessera import Tensor, _C
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
