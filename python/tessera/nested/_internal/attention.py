"""Attention of batches whose sequences have different lengths: each sequence to itself, without padding."""

import tessera
from tessera.nested._internal.base import is_nested
from tessera.nested._internal.nested_tensor import NestedTensor


def _check(query, key, value, attn_mask):
    if attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: masks are not supported for nested tensors")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not is_nested(tensor):
            raise ValueError(f"scaled_dot_product_attention: expected {name} to be nested, got a dense tensor")


def jagged_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """scaled_dot_product_attention of jagged tensors (batch, heads, ragged, features), (batch, ragged, features), or
    (batch, ragged, sequence, features), where each of the ragged entries attends to itself.

    Raises: ValueError for a mask, for dense arguments, and for a ragged dimension that is not the last but one;
    whatever the attention of a component raises.
    """
    _check(query, key, value, attn_mask)
    attend = tessera.nn.functional.scaled_dot_product_attention
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    if all(isinstance(t, NestedTensor) and (t._ragged_idx, t._values.dim()) == (1, 3) for t in (query, key, value)):
        if query._size[1] == key._size[1] == value._size[1]:  # (batch, ragged, sequence, features): all of one length
            return query._like(attend(query._values, key._values, value._values, **options))
    for tensor in (query, key, value):
        if not isinstance(tensor, NestedTensor) or tensor._ragged_idx != tensor._values.dim() - 1:
            raise ValueError(
                "scaled_dot_product_attention: expected jagged tensors of shape (batch, heads, ragged, features), got "
                f"{getattr(tensor, '_size', 'the strided layout')}"
            )
    if not len(query) == len(key) == len(value):
        raise ValueError(
            f"scaled_dot_product_attention: expected batches of one size, got {len(query)}, {len(key)} and {len(value)}"
        )
    query = query._packed()
    dim = query._ragged_idx - 1
    outputs = []
    for q, k, v in zip(query._parts(), key._parts(), value._parts()):
        out = attend(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), **options)
        outputs.append(out[0].movedim(dim, 0))
    return query._like(tessera.cat(outputs).movedim(0, dim))


def strided_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """scaled_dot_product_attention of strided nested tensors, component by component."""
    _check(query, key, value, attn_mask)
    attend = tessera.nn.functional.scaled_dot_product_attention
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    parts = zip(query._parts, key._parts, value._parts)
    return query._of([attend(q[None], k[None], v[None], **options)[0] for q, k, v in parts])


def multi_head(module, query, key, value, key_padding_mask, need_weights, attn_mask, is_causal):
    """nn.MultiheadAttention of nested tensors: (output, None).

    Raises: RuntimeError for masks, for weights that are asked for, for a module that is not batch_first, and for
    separate dimensions of keys and values.
    """
    if key_padding_mask is not None or attn_mask is not None:
        raise RuntimeError("MultiheadAttention: nested tensors need no masks, and none are supported with them")
    if need_weights:
        raise RuntimeError("MultiheadAttention: weights are not returned for nested tensors; give need_weights=False")
    if not module.batch_first or not module._qkv_same_embed_dim or module.bias_k is not None or module.add_zero_attn:
        raise RuntimeError(
            "MultiheadAttention: nested tensors need batch_first=True, equal dimensions of query, key and value, and "
            "neither add_bias_kv nor add_zero_attn"
        )
    linear = tessera.nn.functional.linear
    weights = module.in_proj_weight.chunk(3)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    heads = [
        linear(x, w, b).unflatten(-1, (module.num_heads, module.head_dim)).transpose(1, 2)
        for x, w, b in zip((query, key, value), weights, biases)
    ]
    dropout = module.dropout if module.training else 0.0
    output = tessera.nn.functional.scaled_dot_product_attention(*heads, dropout_p=dropout, is_causal=is_causal)
    return module.out_proj(output.transpose(1, 2).flatten(-2)), None
