"""Attention whose scores and masks are functions of the indices."""

import math
from typing import NamedTuple, TypedDict

import tessera
from tessera.nn.attention._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_indices,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "_DEFAULT_SPARSE_BLOCK_SIZE",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What flex_attention returns besides the output: lse, max_scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by AuxRequest, each (B, H, L) of float32 (of float64 for inputs of float64).

    lse: logarithm of the sum of the exponentials of the scores, -inf where all keys are masked.
    max_scores: the largest score.
    """

    lse: tessera.Tensor | None = None
    max_scores: tessera.Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Hints for kernels of devices, for one direction after "fwd_" and "bwd_". They never change results, and the
    kernels of this library choose for themselves.
    """

    BACKEND: str
    BLOCKS_ARE_CONTIGUOUS: bool
    BLOCK_M: int
    BLOCK_M1: int
    BLOCK_M2: int
    BLOCK_N: int
    BLOCK_N1: int
    BLOCK_N2: int
    FORCE_USE_FLEX_ATTENTION: bool
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    num_stages: int
    num_warps: int
    waves_per_eu: int
    WRITE_DQ: bool


def _check_inputs(query, key, value, enable_gqa, block_mask):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError(
            f"query, key and value are (batch, heads, length, features), but have {query.dim()}, {key.dim()} and "
            f"{value.dim()} dimensions"
        )
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )
    (batch, heads, _, features), (key_batch, key_heads, keys, key_features) = query.shape, key.shape
    if features != key_features:
        raise ValueError(f"query and key need the same number of features, but got {features} and {key_features}")
    if value.shape[:3] != (key_batch, key_heads, keys):
        raise ValueError(
            f"key and value need the same batch, heads and length, but got {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if batch != key_batch and (block_mask is None or key_batch != 1):
        raise ValueError(
            f"query and key need the same batch size (or, with a block mask, keys one for all), but got {batch} and "
            f"{key_batch}"
        )
    if heads != key_heads and not enable_gqa:
        raise ValueError(f"query has {heads} heads and key {key_heads}: give enable_gqa=True to share keys")
    if heads % key_heads:
        raise ValueError(f"the heads of query ({heads}) must be a multiple of those of key ({key_heads})")


def _check_block_mask(block_mask, query, key):
    queries, keys = query.shape[-2], key.shape[-2]
    mask_queries, mask_keys = block_mask.seq_lengths
    if (mask_queries, mask_keys) != (queries, keys):
        shorter = mask_queries < queries or mask_keys < keys
        raise ValueError(
            f"the block mask is for {mask_queries} queries and {mask_keys} keys, but there are {queries} and {keys}: "
            + ("make a new one" if shorter else "make a new one, or cut it with block_mask._adjust(q_len, kv_len)")
        )
    for name, size, mask_size in zip(("batch size", "number of heads"), query.shape, block_mask.shape):
        if mask_size not in (1, size):
            raise RuntimeError(f"the block mask has the {name} {mask_size}, but query has {size}: expected it or 1")
    if block_mask.kv_indices.device != query.device:
        raise RuntimeError(
            f"the block mask is on device {block_mask.kv_indices.device}, but query is on {query.device}: "
            "block_mask.to(device) moves it"
        )


def _check_options(kernel_options):
    if not isinstance(kernel_options, dict):
        raise TypeError(f"kernel_options is a dict, but got {type(kernel_options).__name__}")
    known = FlexKernelOptions.__annotations__
    unknown = [name for name in kernel_options if name.removeprefix("fwd_").removeprefix("bwd_") not in known]
    if unknown:
        raise ValueError(f"kernel_options has no {unknown}; known, also after fwd_ and bwd_, are {sorted(known)}")


def _attend(query, key, value, score_mod, mask, scale):
    """(output, lse, largest scores) from all scores at once; rows without keys give 0, -inf, -inf."""
    work = tessera.float64 if query.dtype == tessera.float64 else tessera.float32
    scores = (query.to(work) @ key.to(work).mT) * scale
    if score_mod is not None:
        scores = over_indices(score_mod, scores.shape, scores.device, scores).to(work)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if key.shape[-2] == 0:
        scores = scores.new_full((*scores.shape[:-1], 1), -math.inf)
        value = value.new_zeros((*value.shape[:-2], 1, value.shape[-1]))
    largest = scores.amax(-1, keepdim=True)
    dead = largest == -math.inf
    top = largest.detach().masked_fill(dead, 0.0)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True).masked_fill(dead, 1.0)
    lse = (total.log() + top).masked_fill(dead, -math.inf)
    output = (weights @ value.to(work)) / total
    return output.to(query.dtype), lse.squeeze(-1), largest.squeeze(-1)


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """Attention with softmax over `score_mod(scores)`, where `block_mask` allows it.

    Args:
        query: (B, Hq, L, E).
        key: (B, Hkv, S, E), or with a block mask (1, Hkv, S, E).
        value: as key, with any number of features Ev.
        score_mod: (score, batch, head, query index, key index) -> score, all of them scalar tensors; what it captures
            may require grad.
        block_mask: a BlockMask of B or 1 batches and Hq or 1 heads. Blocks that it does not name are not attended to.
        scale: factor of the scores; by default 1 / sqrt(E).
        enable_gqa: Hq may be a multiple of Hkv, whose heads then serve several of the query's.
        return_lse: deprecated, see return_aux: returns (output, lse).
        kernel_options: FlexKernelOptions.
        return_aux: an AuxRequest: returns (output, AuxOutput).

    Returns: (B, Hq, L, Ev); 0 for queries without any key.

    Raises: ValueError for inputs that do not fit together, NotImplementedError for other than four dimensions,
        RuntimeError for a block mask of other lengths.
    """
    _check_inputs(query, key, value, enable_gqa, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError("return_lse says what return_aux=AuxRequest(lse=True) says: give one of them")
    if kernel_options is not None:
        _check_options(kernel_options)
    batch, heads, _, features = query.shape
    if key.shape[0] != batch:
        key, value = (t.expand(batch, -1, -1, -1) for t in (key, value))
    mask = None
    if block_mask is not None:
        _check_block_mask(block_mask, query, key)
        mask = block_mask._mask(batch, heads)
    if scale is None:
        scale = 1.0 / math.sqrt(features)
    if score_mod is None and not return_lse and return_aux is None:
        return tessera.nn.functional.scaled_dot_product_attention(
            query, key, value, mask, scale=scale, enable_gqa=enable_gqa
        )
    if key.shape[1] != heads:
        key, value = (t.repeat_interleave(heads // t.shape[1], 1) for t in (key, value))
    output, lse, largest = _attend(query, key, value, score_mod, mask, scale)
    if return_lse:
        return output, lse
    if return_aux is None:
        return output
    return output, AuxOutput(lse if return_aux.lse else None, largest if return_aux.max_scores else None)
