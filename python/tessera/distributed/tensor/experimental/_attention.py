"""Attention of sequences that are cut over processes."""

import contextlib
import math

import tessera
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed.tensor._api import DTensor
from tessera.nn import functional

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _Options:
    """enable_load_balance: each process has a piece from the front of the sequence and one from its end, so that causal
    attention costs all the same. rotate: how keys and values go round.
    """

    def __init__(self):
        self.enable_load_balance, self.rotate = True, "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method):
    """How keys and values come to all processes inside `context_parallel`.

    Args:
        rotate_method: "allgather": all at once; "alltoall": one process's after the other, in a ring, so that no
            process holds more than two pieces.

    Raises: NotImplementedError for other names.
    """
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"rotate_method is 'allgather' or 'alltoall', but got {rotate_method!r}")
    _cp_options.rotate = rotate_method


def _positions(length, size, rank):
    """Which places of a sequence a process has."""
    if not _cp_options.enable_load_balance:
        if length % size:
            raise ValueError(f"a sequence of {length} cannot be cut in {size} equal parts")
        return tessera.arange(length).chunk(size)[rank]
    if length % (2 * size):
        raise ValueError(f"a sequence of {length} cannot be cut in {2 * size} equal parts, two for each process")
    parts = tessera.arange(length).chunk(2 * size)
    return tessera.cat([parts[rank], parts[2 * size - 1 - rank]])


def _all_positions(local, size):
    return [_positions(local * size, size, rank) for rank in range(size)]


def _gathered(x, mesh):
    return collectives.wait_tensor(collectives.all_gather_tensor(x.contiguous(), 2, (mesh, 0)))


def _in_ring(q, k, v, places, rank, mesh, causal, scale):
    """Attention over one piece of keys and values after the other; numbers of each row are scaled by its largest."""
    size, total = mesh.size(), None
    onwards = [(r + 1) % size for r in range(size)]
    for step in range(size):
        scores = (q @ k.transpose(-2, -1)).float() * scale
        if causal:
            here, there = places[rank], places[(rank - step) % size]
            hidden = (there[None, :] > here[:, None]).to(q.device)
            scores = scores.masked_fill(hidden, -math.inf)
        top = scores.detach().amax(-1, keepdim=True).clamp(min=-1e30)
        weights = (scores - top).exp()
        part, norm = weights @ v.float(), weights.sum(-1, keepdim=True)
        if total is None:
            total, sums, most = part, norm, top
        else:
            new = tessera.maximum(most, top)
            old, fresh = (most - new).exp(), (top - new).exp()
            total, sums, most = total * old + part * fresh, sums * old + norm * fresh, new
        if step + 1 < size:
            k, v = (collectives.wait_tensor(collectives.permute_tensor(x, onwards, (mesh, 0))) for x in (k, v))
    return (total / sums).to(q.dtype)


def _attention_over(mesh, plain):
    """scaled_dot_product_attention of parts of sequences."""

    def scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        if isinstance(query, DTensor) or mesh.size() == 1:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        if attn_mask is not None:
            raise NotImplementedError("context_parallel(): attention with an attn_mask is not supported; use is_causal")
        rank, places = mesh.get_local_rank(), _all_positions(query.shape[2], mesh.size())
        if enable_gqa:
            times = query.shape[1] // key.shape[1]
            key, value = (x.repeat_interleave(times, 1) for x in (key, value))
        if _cp_options.rotate == "alltoall":
            if dropout_p:
                raise NotImplementedError("context_parallel(): dropout needs set_rotate_method('allgather')")
            scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
            return _in_ring(query, key, value, places, rank, mesh, is_causal, scale)
        mask = None
        if is_causal:
            mask = (tessera.cat(places)[None, :] <= places[rank][:, None]).to(query.device)
        return plain(query, _gathered(key, mesh), _gathered(value, mesh), mask, dropout_p, scale=scale)

    return scaled_dot_product_attention


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Inside the block each process works on its part of the sequences: buffers are cut in place, and
    `nn.functional.scaled_dot_product_attention` of parts attends to the whole sequences. A process has the pieces r and
    2 n - 1 - r of 2 n.

    Args:
        mesh: DeviceMesh of one dimension.
        buffers: tensors along the sequence, the same everywhere; no parameters.
        buffer_seq_dims: for each the dimension of the sequence.
        no_restore_buffers: a set of those that need not be whole after the block.

    Raises: ValueError for other numbers of dimensions than of buffers, for `no_restore_buffers` that are none of them,
        for parameters, and for lengths that 2 n does not divide.
    """
    buffers, dims = list(buffers or ()), list(buffer_seq_dims or ())
    kept = set(no_restore_buffers or ())
    if len(buffers) != len(dims):
        raise ValueError(f"`buffer_seq_dims` must have as many elements as `buffers`: {len(dims)} and {len(buffers)}")
    if not all(any(b is k for b in buffers) for k in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    if any(b.requires_grad for b in buffers):
        raise ValueError("`buffers` may not hold parameters, nor other tensors that require grad")
    rank, wholes, parts = mesh.get_local_rank(), [], []
    for buffer, dim in zip(buffers, dims):
        places = _positions(buffer.shape[dim], mesh.size(), rank).to(buffer.device)
        parts.append(buffer.index_select(dim, places))
        wholes.append(None if buffer in kept else buffer.clone())
    plain = functional.scaled_dot_product_attention
    for buffer, part in zip(buffers, parts):
        buffer.resize_(part.shape).copy_(part)
    functional.scaled_dot_product_attention = _attention_over(mesh, plain)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = plain
        for buffer, whole in zip(buffers, wholes):
            if whole is not None:
                buffer.resize_(whole.shape).copy_(whole)


def context_parallel_unshard(mesh, buffers, seq_dims):
    """The whole tensors, in their order, of parts that `context_parallel` has cut.

    Args:
        mesh: DeviceMesh of one dimension.
        buffers: parts.
        seq_dims: for each the dimension of the sequence.
    """
    made = []
    for part, dim in zip(buffers, seq_dims):
        whole = collectives.wait_tensor(collectives.all_gather_tensor(part.contiguous(), dim, (mesh, 0)))
        order = tessera.cat(_all_positions(part.shape[dim], mesh.size())).argsort()
        made.append(whole.index_select(dim, order.to(part.device)))
    return made
