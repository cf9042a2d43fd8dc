"""What `functorch.experimental` holds: names of `torch.func`, and vmap in a number of chunks."""

import functools

import torch
from functorch import functionalize
from torch.func import hessian, jacfwd, jvp, replace_all_batch_norm_modules_
from torch.utils import _pytree as pytree

__all__ = [
    "chunk_vmap", "control_flow", "functionalize", "hessian", "jacfwd", "jvp", "ops", "replace_all_batch_norm_modules_",
]  # fmt: skip


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap that computes a number of parts of the batch one after the other.

    Args:
        func, in_dims, out_dims, randomness: as of torch.vmap. chunks: how many parts; at least 1 (ValueError).
    """
    if chunks < 1:
        raise ValueError(f"chunk_vmap: expected at least one chunk, got {chunks}")

    @functools.wraps(func)
    def in_chunks(*args, **kwargs):
        leaves, spec = pytree.tree_flatten(args)
        dims = pytree._broadcast_to_and_flatten(in_dims, spec) or ()
        batch = next((t.shape[d] for t, d in zip(leaves, dims) if d is not None), 0)
        size = max(1, -(-batch // chunks))
        return torch.vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return in_chunks


from functorch.experimental import control_flow, ops  # noqa: E402
