"""Attention over sequences of different lengths that lie one behind the other."""

from typing import NamedTuple

import tessera
from tessera.nn.attention.flex_attention import _attend

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """What varlen_attn returns besides the output: lse."""

    lse: bool = False


def _check(query, key, value, cu_seq_q, cu_seq_k):
    """The bounds of the sequences, as lists."""
    if query.dim() != 3 or key.dim() != 3 or value.shape[:2] != key.shape[:2]:
        raise ValueError(
            f"query, key and value are (tokens, heads, features), but got {tuple(query.shape)}, {tuple(key.shape)} and "
            f"{tuple(value.shape)}"
        )
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"the heads of query ({query.shape[1]}) must be a multiple of those of key ({key.shape[1]})")
    bounds = cu_seq_q.tolist(), cu_seq_k.tolist()
    for name, found, tensor in zip(("cu_seq_q", "cu_seq_k"), bounds, (query, key)):
        if found[:1] != [0] or found != sorted(found) or found[-1] != tensor.shape[0]:
            raise ValueError(f"{name} must rise from 0 to the number of tokens, {tensor.shape[0]}, but got {found}")
    if len(bounds[0]) != len(bounds[1]):
        raise ValueError(f"cu_seq_q is of {len(bounds[0]) - 1} sequences, cu_seq_k of {len(bounds[1]) - 1}")
    return bounds


def _window(queries, keys, window_size, device):
    """The mask (queries, keys) of a window around the diagonal that ends at the lower right; None where all is seen."""
    left, right = window_size
    if left < 0 and right < 0:
        return None
    distance = tessera.arange(keys, device=device) - (tessera.arange(queries, device=device) + keys - queries)[:, None]
    mask = tessera.ones((), dtype=tessera.bool, device=device)
    if left >= 0:
        mask = mask & (distance >= -left)
    if right >= 0:
        mask = mask & (distance <= right)
    return mask


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
):
    """Attention of each sequence to its own keys.

    Args:
        query: (tokens, heads, E), sequence behind sequence.
        key, value: (tokens of keys, heads of keys, E); the heads of query are a multiple of them.
        cu_seq_q, cu_seq_k: (sequences + 1,) integers: where each sequence begins, and the end.
        max_q, max_k: lengths of the longest sequences, or more.
        return_aux: AuxRequest(lse=True) returns (output, lse), lse (heads, tokens): the logarithm of the sum of the
            exponentials of each query's scores.
        scale: factor of the scores; by default 1 / sqrt(E).
        window_size: (left, right): how many keys before and after its own place a query sees, -1 for all; the last
            query's place is that of the last key. (-1, 0) is causal.

    Returns: (tokens, heads, E).

    Raises: ValueError for bounds that do not rise from 0 to the number of tokens, for a sequence longer than max_q or
        max_k, and for shapes that do not fit together.
    """
    starts_q, starts_k = _check(query, key, value, cu_seq_q, cu_seq_k)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    groups, with_lse = query.shape[1] // key.shape[1], return_aux is not None and return_aux.lse
    outputs, sums = [], []
    for i in range(len(starts_q) - 1):
        rows, columns = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (query[rows], key[columns], value[columns]))
        if q.shape[2] > max_q or k.shape[2] > max_k:
            raise ValueError(
                f"sequence {i} has {q.shape[2]} queries and {k.shape[2]} keys, but max_q is {max_q} and max_k {max_k}"
            )
        mask = _window(q.shape[2], k.shape[2], window_size, q.device)
        if with_lse:
            k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
            output, lse, _ = _attend(q, k, v, None, mask, scale)
            sums.append(lse[0])
        else:
            output = tessera.nn.functional.scaled_dot_product_attention(
                q, k, v, mask, scale=scale, enable_gqa=groups > 1
            )
        outputs.append(output[0].transpose(0, 1))
    output = tessera.cat(outputs) if outputs else query.new_zeros(0, query.shape[1], value.shape[-1])
    return (output, tessera.cat(sums, -1)) if with_lse else output
