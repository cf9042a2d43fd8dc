"""Multi-head attention as one function."""

import tessera
from tessera.overrides import handle_torch_function, has_torch_function

_nn = tessera._C._nn


def _in_projection_packed(q, k, v, w, b=None):
    """The three projections with their weights stacked in `w` (3E, E): q, k, v of the last dim E each."""
    e = q.size(-1)
    if k is v:
        if q is k:
            # one product; the split is made contiguous, as the attention below wants it
            proj = _nn.linear(q, w, b)
            proj = proj.unflatten(-1, (3, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return proj[0], proj[1], proj[2]
        w_q, w_kv = w.split([e, e * 2])
        b_q, b_kv = (None, None) if b is None else b.split([e, e * 2])
        kv = _nn.linear(k, w_kv, b_kv)
        kv = kv.unflatten(-1, (2, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return _nn.linear(q, w_q, b_q), kv[0], kv[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return _nn.linear(q, w_q, b_q), _nn.linear(k, w_k, b_k), _nn.linear(v, w_v, b_v)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """The three projections with separate weights."""
    e = q.size(-1)
    assert w_q.shape == (e, e), f"expecting query weights shape of {(e, e)}, but got {w_q.shape}"
    assert w_k.shape == (e, k.size(-1)), f"expecting key weights shape of {(e, k.size(-1))}, but got {w_k.shape}"
    assert w_v.shape == (e, v.size(-1)), f"expecting value weights shape of {(e, v.size(-1))}, but got {w_v.shape}"
    for name, b in (("query", b_q), ("key", b_k), ("value", b_v)):
        assert b is None or b.shape == (e,), f"expecting {name} bias shape of {(e,)}, but got {b.shape}"
    return _nn.linear(q, w_q, b_q), _nn.linear(k, w_k, b_k), _nn.linear(v, w_v, b_v)


def _none_or_dtype(input):
    if input is None:
        return None
    if isinstance(input, tessera.Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A boolean mask as an additive one (-inf where True); a float mask as it is. AssertionError for other dtypes."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    if mask.dtype != tessera.bool and not is_float:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        import warnings

        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if not is_float:
        mask = tessera.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))
    return mask


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs are batched. AssertionError if the ranks do not fit together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    word, rank = ("batched", 3) if batched else ("unbatched", 2)
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {word} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"For {word} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {word} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                f"{attn_mask.dim()}-D tensor instead"
            )
        if not batched and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if attn_mask.shape != expected:
                raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _check_mask_shape(attn_mask, tgt_len, src_len, bsz, num_heads):
    if attn_mask.dim() == 2:
        expected = (tgt_len, src_len)
        if attn_mask.shape != expected:
            raise RuntimeError(f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {expected}.")
        return attn_mask.unsqueeze(0)
    if attn_mask.dim() == 3:
        expected = (bsz * num_heads, tgt_len, src_len)
        if attn_mask.shape != expected:
            raise RuntimeError(f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {expected}.")
        return attn_mask
    raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Multi-head attention of Vaswani et al. 2017: query (L, N, E), key (S, N, Ek), value (S, N, Ev), or each without
    N.

    Boolean masks are True where attention is not allowed; float masks are added. Returns (output (L, N, E), weights (N,
    L, S) averaged over heads, or
    (N, H, L, S), or None without need_weights).
    """
    relevant = (query, key, value, in_proj_weight, in_proj_bias, bias_k, bias_v, out_proj_weight, out_proj_bias)
    if has_torch_function(relevant):
        return handle_torch_function(
            multi_head_attention_forward,
            relevant,
            query,
            key,
            value,
            embed_dim_to_check,
            num_heads,
            in_proj_weight,
            in_proj_bias,
            bias_k,
            bias_v,
            add_zero_attn,
            dropout_p,
            out_proj_weight,
            out_proj_bias,
            training=training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            is_causal=is_causal,
            use_separate_proj_weight=use_separate_proj_weight,
            q_proj_weight=q_proj_weight,
            k_proj_weight=k_proj_weight,
            v_proj_weight=v_proj_weight,
            static_k=static_k,
            static_v=static_v,
            average_attn_weights=average_attn_weights,
        )
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        # the mask is the causal one and nothing else masks: the attention makes its own
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and key_padding_mask is None
    assert embed_dim == embed_dim_to_check, (
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}"
    )
    head_dim = embed_dim // num_heads
    assert head_dim * num_heads == embed_dim, f"embed_dim {embed_dim} not divisible by num_heads {num_heads}"
    if use_separate_proj_weight:
        assert key.shape[:2] == value.shape[:2], (
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    else:
        assert key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}"

    if use_separate_proj_weight:
        for name, w in (("q", q_proj_weight), ("k", k_proj_weight), ("v", v_proj_weight)):
            assert w is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None"
        b_q, b_k, b_v = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, b_q, b_k, b_v)
    else:
        assert in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None"
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)

    if attn_mask is not None:
        attn_mask = _check_mask_shape(attn_mask, tgt_len, src_len, bsz, num_heads)

    pad = tessera.constant_pad_nd
    if bias_k is not None and bias_v is not None:
        assert static_k is None and static_v is None, "bias cannot be added to static key and value."
        k = tessera.cat([k, bias_k.repeat(1, bsz, 1)])
        v = tessera.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    else:
        assert bias_k is None and bias_v is None, "bias_k and bias_v have to be given together"

    q = q.view(tgt_len, bsz * num_heads, head_dim).transpose(0, 1)
    if static_k is None:
        k = k.view(k.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        assert static_k.size(0) == bsz * num_heads, (
            f"expecting static_k.size(0) of {bsz * num_heads}, but got {static_k.size(0)}"
        )
        assert static_k.size(2) == head_dim, f"expecting static_k.size(2) of {head_dim}, but got {static_k.size(2)}"
        k = static_k
    if static_v is None:
        v = v.view(v.shape[0], bsz * num_heads, head_dim).transpose(0, 1)
    else:
        assert static_v.size(0) == bsz * num_heads, (
            f"expecting static_v.size(0) of {bsz * num_heads}, but got {static_v.size(0)}"
        )
        assert static_v.size(2) == head_dim, f"expecting static_v.size(2) of {head_dim}, but got {static_v.size(2)}"
        v = static_v

    if add_zero_attn:
        zeros = (bsz * num_heads, 1, head_dim)
        k = tessera.cat([k, tessera.zeros(zeros, dtype=k.dtype, device=k.device)], dim=1)
        v = tessera.cat([v, tessera.zeros(zeros, dtype=v.dtype, device=v.device)], dim=1)
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    src_len = k.size(1)

    if key_padding_mask is not None:
        if key_padding_mask.shape != (bsz, src_len):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(bsz, src_len)}, but got {key_padding_mask.shape}"
            )
        key_padding_mask = (
            key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(bsz * num_heads, 1, src_len)
        )
        attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
    if not training:
        dropout_p = 0.0

    if need_weights:
        return _attention_with_weights(
            q, k, v, attn_mask, dropout_p, bsz, num_heads, out_proj_weight, out_proj_bias, average_attn_weights, batched
        )
    if attn_mask is not None:
        if attn_mask.size(0) == 1 and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(bsz, num_heads, -1, src_len)
    q = q.view(bsz, num_heads, tgt_len, head_dim)
    k = k.view(bsz, num_heads, src_len, head_dim)
    v = v.view(bsz, num_heads, src_len, head_dim)
    out = _nn.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    out = out.permute(2, 0, 1, 3).contiguous().view(bsz * tgt_len, embed_dim)
    out = _nn.linear(out, out_proj_weight, out_proj_bias).view(tgt_len, bsz, -1)
    return (out if batched else out.squeeze(1)), None


def _four_dimensional_mask(attn_mask, key_padding_mask, tgt_len, src_len, bsz, num_heads):
    """Both masks (float, or None) as one that broadcasts to (N, H, L, S)."""
    if attn_mask is not None:
        attn_mask = _check_mask_shape(attn_mask, tgt_len, src_len, bsz, num_heads)
        attn_mask = (
            attn_mask.unsqueeze(0) if attn_mask.size(0) == 1 else attn_mask.view(bsz, num_heads, tgt_len, src_len)
        )
    if key_padding_mask is None:
        return attn_mask
    if key_padding_mask.shape != (bsz, src_len):
        raise AssertionError(f"expecting key_padding_mask shape of {(bsz, src_len)}, but got {key_padding_mask.shape}")
    key_padding_mask = key_padding_mask.view(bsz, 1, 1, src_len)
    return key_padding_mask if attn_mask is None else attn_mask + key_padding_mask


def _batch_first_attention(
    query,
    key,
    value,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    out_proj_weight,
    out_proj_bias,
    dropout_p,
    key_padding_mask,
    attn_mask,
    is_causal,
):
    """Attention without its weights for inputs (N, L, E), (N, S, E) of checked shapes, in their own layout: projections
    are split into heads as views.
    """
    bsz, tgt_len, embed_dim = query.shape
    src_len = key.shape[1]
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None:
        mask = None
    else:
        is_causal = False if key_padding_mask is not None else is_causal
        mask = _four_dimensional_mask(attn_mask, key_padding_mask, tgt_len, src_len, bsz, num_heads)
    if query is key and key is value:
        parts = _nn.linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)
    else:
        weights = in_proj_weight.chunk(3)
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        parts = [_nn.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
    q, k, v = [x.unflatten(-1, (num_heads, embed_dim // num_heads)).transpose(1, 2) for x in parts]
    out = _nn.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    return _nn.linear(out.transpose(1, 2).reshape(bsz, tgt_len, embed_dim), out_proj_weight, out_proj_bias)


def _attention_with_weights(
    q, k, v, attn_mask, dropout_p, bsz, num_heads, out_proj_weight, out_proj_bias, average, batched
):
    """The attention written out, where the caller wants to see its weights. q (N H, L, D), k and v (N H, S, D)."""
    tgt_len, head_dim, src_len = q.size(1), q.size(2), k.size(1)
    scaled = q * (1.0 / float(head_dim)) ** 0.5
    if attn_mask is not None:
        weights = tessera.baddbmm(attn_mask, scaled, k.transpose(-2, -1))
    else:
        weights = tessera.bmm(scaled, k.transpose(-2, -1))
    weights = weights.softmax(-1)
    if dropout_p > 0.0:
        weights = tessera.dropout(weights, dropout_p, True)
    out = tessera.bmm(weights, v).transpose(0, 1).contiguous().view(tgt_len * bsz, num_heads * head_dim)
    out = _nn.linear(out, out_proj_weight, out_proj_bias).view(tgt_len, bsz, -1)
    weights = weights.view(bsz, num_heads, tgt_len, src_len)
    if average:
        weights = weights.mean(dim=1)
    if not batched:
        return out.squeeze(1), weights.squeeze(0)
    return out, weights
