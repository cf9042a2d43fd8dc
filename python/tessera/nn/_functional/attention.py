"""Multi-head attention as one function: checks, projections, further keys, masks, attention, output.

Sizes in comments: N sequences, L queries, S keys, E features, H heads of D = E / H features.
"""

import tessera

from tessera.overrides import handle_torch_function, has_torch_function

_nn = tessera._C._nn


# ---- Masks ----


_NO_MASK = (
    "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
    "`generate_square_subsequent_mask` to create this mask."
)


def _additive(mask, name, dtype):
    """A boolean mask as terms of `dtype`, -inf where True; a float mask as it is. AssertionError for other dtypes."""
    if mask is None:
        return None
    if not isinstance(mask, tessera.Tensor):
        raise RuntimeError(f"{name} must be None or a tensor, but got {type(mask).__name__}")
    if mask.is_floating_point():
        return mask
    if mask.dtype != tessera.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return tessera.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def _mask_terms(mask, padding, dtype, names=("attn_mask", "key_padding_mask"), stacklevel=3):
    """Both masks as terms that are added to scores of `dtype`. UserWarning if their dtypes differ."""
    if mask is None and padding is None:
        return None, None
    mask_name, padding_name = names
    result = _additive(mask, mask_name, dtype), _additive(padding, padding_name, dtype)
    if mask is not None and padding is not None and mask.dtype != padding.dtype:
        import warnings

        warnings.warn(
            f"Support for mismatched {padding_name} and {mask_name} is deprecated. Use same type for both instead.",
            stacklevel=stacklevel,
        )
    return result


def _merged(mask, padding, heads, queries, keys):
    """Terms (L, S) or (N H, L, S), and of padding (N, S), as one that broadcasts to (N, H, L, S). None if there are
    none.
    """
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.dim() == 2 else mask
        mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.view(heads.batch, heads.count, queries, keys)
    if padding is None:
        return mask
    if padding.shape[0] != heads.batch:
        raise AssertionError(f"Expected key_padded_mask.shape[0] to be {heads.batch}, but got {padding.shape[0]}")
    if padding.shape != (heads.batch, keys):
        raise AssertionError(f"expecting key_padding_mask shape of {(heads.batch, keys)}, but got {padding.shape}")
    padding = padding.view(heads.batch, 1, 1, keys)
    return padding if mask is None else mask + padding


# ---- Checks ----


def _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs are batched. AssertionError if the ranks do not fit together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    rank = query.dim()
    wrong = None
    if key.dim() != rank or value.dim() != rank:
        wrong = f"`key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
    elif key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        wrong = f"`key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
    elif attn_mask is not None and attn_mask.dim() not in (2, 3):
        wrong = f"`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
    if wrong:
        raise AssertionError(f"For {'batched' if batched else 'unbatched'} ({rank}-D) `query`, expected {wrong}")
    if attn_mask is not None and not batched and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if attn_mask.shape != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _check_mask_shape(mask, heads, queries, keys):
    """RuntimeError unless a mask is (L, S) or (N H, L, S)."""
    expected = (queries, keys) if mask.dim() == 2 else (heads.batch * heads.count, queries, keys)
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if mask.shape != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")


def _check_inputs(query, key, value, embed_dim, separate):
    """AssertionError unless query, key and value (L or S, N, features) fit together."""
    assert query.size(2) == embed_dim, f"was expecting embedding dimension of {embed_dim}, but got {query.size(2)}"
    if key is value:
        return
    if separate:
        assert key.shape[:2] == value.shape[:2], (
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    else:
        assert key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}"


# ---- Steps ----


class _Heads:
    """How features are cut into heads: `count` of `dim` features, in `batch` sequences."""

    __slots__ = ("batch", "count", "dim")

    def __init__(self, batch, count, features):
        self.batch, self.count, self.dim = batch, count, features // count
        assert self.dim * count == features, f"embed_dim {features} not divisible by num_heads {count}"

    def split(self, t):
        """(S, N, E) as a matrix for each head: (N H, S, D)."""
        return t.view(t.size(0), self.batch * self.count, self.dim).transpose(0, 1)

    def grid(self, t):
        """(N H, S, D) as (N, H, S, D)."""
        return t.view(self.batch, self.count, t.size(1), self.dim)

    def join(self, t):
        """(L, N, H, D) or (L, N H, D) as rows (L N, E)."""
        return t.contiguous().view(t.size(0) * self.batch, self.count * self.dim)

    def split_or(self, given, t, name):
        """split(t), or keys or values that the caller has projected. AssertionError unless they are (N H, any S, D)."""
        if given is None:
            return self.split(t)
        for dim, expected in ((0, self.batch * self.count), (2, self.dim)):
            assert given.size(dim) == expected, f"expecting {name}.size({dim}) of {expected}, but got {given.size(dim)}"
        return given


def _stacked_projections(query, key, value, weight, bias):
    """Query, key and value by the thirds of `weight` (3E, E). Key and value, or all three, that are one tensor are
    projected by one product, and cut into contiguous parts.
    """
    assert weight is not None, "use_separate_proj_weight is False but in_proj_weight is None"
    e = query.size(-1)
    if key is not value:
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return [_nn.linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases)]
    if query is key:
        return _several(query, weight, bias, 3)
    (w_query, w_rest), (b_query, b_rest) = (
        weight.split([e, 2 * e]),
        (None, None) if bias is None else bias.split([e, 2 * e]),
    )
    return (_nn.linear(query, w_query, b_query), *_several(key, w_rest, b_rest, 2))


def _several(x, weight, bias, count):
    """`count` projections of (S, N, E) by one product."""
    length, batch, e = x.shape
    parts = _nn.linear(x, weight, bias).view(length, batch, count, e).permute(2, 0, 1, 3).contiguous()
    return [parts[i] for i in range(count)]


def _separate_projections(inputs, weights, bias):
    """Query, key and value by weights of their own, (E, features of the input) each."""
    e = inputs[0].size(-1)
    for letter, w in zip("qkv", weights):
        assert w is not None, f"use_separate_proj_weight is True but {letter}_proj_weight is None"
    biases = (None, None, None) if bias is None else bias.chunk(3)
    for name, x, w, b in zip(("query", "key", "value"), inputs, weights, biases):
        expected = (e, x.size(-1))
        assert w.shape == expected, f"expecting {name} weights shape of {expected}, but got {w.shape}"
        assert b is None or b.shape == (e,), f"expecting {name} bias shape of {(e,)}, but got {b.shape}"
    return [_nn.linear(x, w, b) for x, w, b in zip(inputs, weights, biases)]


def _one_key_more(masks):
    """Masks (mask, padding) that let all see a key that is appended."""
    return [None if m is None else tessera.constant_pad_nd(m, (0, 1)) for m in masks]


def _all_keys(heads, q, k, v, masks, bias, static, zero):
    """Projections (L or S, N, E) as matrices for each head, with the keys that come beside those of the input: learned
    ones (`bias`), others instead of the input's (`static`), one of zeros. The masks grow with them.
    """
    if bias[0] is not None or bias[1] is not None:
        assert bias[0] is not None and bias[1] is not None, "bias_k and bias_v have to be given together"
        assert static[0] is None and static[1] is None, "bias cannot be added to static key and value."
        k, v = [tessera.cat([t, b.repeat(1, heads.batch, 1)]) for t, b in zip((k, v), bias)]
        masks = _one_key_more(masks)
    k, v = heads.split_or(static[0], k, "static_k"), heads.split_or(static[1], v, "static_v")
    if zero:
        row = (heads.batch * heads.count, 1, heads.dim)
        k, v = [tessera.cat([t, tessera.zeros(row, dtype=t.dtype, device=t.device)], dim=1) for t in (k, v)]
        masks = _one_key_more(masks)
    return heads.split(q), k, v, masks


def _attend(q, k, v, terms, dropout_p, causal, heads):
    """The attention of (N H, L or S, D), its heads joined: rows (L N, E)."""
    q, k, v = heads.grid(q), heads.grid(k), heads.grid(v)
    return heads.join(_nn.scaled_dot_product_attention(q, k, v, terms, dropout_p, causal).permute(2, 0, 1, 3))


def _attend_and_show(q, k, v, terms, dropout_p, heads):
    """The attention of (N H, L or S, D) written out: rows (L N, E), and the weights (N, H, L, S)."""
    scaled, transposed = q * (1.0 / float(heads.dim)) ** 0.5, k.transpose(-2, -1)
    if terms is None:
        scores = tessera.bmm(scaled, transposed)
    else:
        each = terms[0] if terms.shape[:2] == (1, 1) else terms.expand(-1, heads.count, -1, -1).flatten(0, 1)
        scores = tessera.baddbmm(each, scaled, transposed)
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = tessera.dropout(weights, dropout_p, True)
    shown = weights.view(heads.batch, heads.count, q.size(1), k.size(1))
    return heads.join(tessera.bmm(weights, v).transpose(0, 1)), shown


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
        given = [(name, argument) for name, argument in locals().items() if name != "relevant"]
        positional = [argument for _, argument in given[:13]]  # those without defaults
        return handle_torch_function(multi_head_attention_forward, relevant, *positional, **dict(given[13:]))
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    if is_causal and attn_mask is None:
        raise RuntimeError(_NO_MASK)
    # Where nothing else masks, the attention makes the causal mask itself.
    causal = is_causal and key_padding_mask is None and not need_weights
    masks = _mask_terms(None if causal else attn_mask, key_padding_mask, query.dtype, stacklevel=4)
    _check_inputs(query, key, value, embed_dim_to_check, use_separate_proj_weight)
    heads = _Heads(query.size(1), num_heads, embed_dim_to_check)

    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _separate_projections((query, key, value), weights, in_proj_bias)
    else:
        q, k, v = _stacked_projections(query, key, value, in_proj_weight, in_proj_bias)
    if masks[0] is not None:
        _check_mask_shape(masks[0], heads, query.shape[0], key.shape[0])
    q, k, v, masks = _all_keys(heads, q, k, v, masks, (bias_k, bias_v), (static_k, static_v), add_zero_attn)

    terms = _merged(*masks, heads, q.size(1), k.size(1))
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        rows, shown = _attend_and_show(q, k, v, terms, dropout_p, heads)
        shown = shown.mean(dim=1) if average_attn_weights else shown
        shown = shown if batched else shown.squeeze(0)
    else:
        rows, shown = _attend(q, k, v, terms, dropout_p, causal, heads), None
    out = _nn.linear(rows, out_proj_weight, out_proj_bias)
    out = out.view(q.size(1), heads.batch, out.size(-1))
    return (out if batched else out.squeeze(1)), shown


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
    are split into heads as views. Masks are terms (_mask_terms).
    """
    heads, queries, keys = _Heads(query.shape[0], num_heads, query.shape[2]), query.shape[1], key.shape[1]
    if is_causal and attn_mask is None:
        raise RuntimeError(_NO_MASK)
    causal, terms = is_causal and key_padding_mask is None, None
    if not causal:
        if attn_mask is not None:
            _check_mask_shape(attn_mask, heads, queries, keys)
        terms = _merged(attn_mask, key_padding_mask, heads, queries, keys)
    if query is key and key is value:
        parts = _nn.linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)
    else:
        weights = in_proj_weight.chunk(3)
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        parts = [_nn.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
    q, k, v = [x.unflatten(-1, (num_heads, heads.dim)).transpose(1, 2) for x in parts]
    out = _nn.scaled_dot_product_attention(q, k, v, terms, dropout_p, causal)
    return _nn.linear(out.transpose(1, 2).reshape(query.shape), out_proj_weight, out_proj_bias)
