"""What the operators of this module compute, and their entries among the operators."""

import math

import tessera
from tessera.onnx._types import FROM_ONNX


def rotary_embedding(X, cos_cache, sin_cache, position_ids=None, *, interleaved=False, num_heads=0,
                     rotary_embedding_dim=0):  # fmt: skip
    x = X
    if X.dim() == 3:
        if num_heads <= 0:
            raise ValueError("rotary_embedding: X of three dimensions needs num_heads")
        x = X.unflatten(-1, (num_heads, -1))
    elif X.dim() == 4:
        x = X.transpose(1, 2)
    else:
        raise ValueError(f"rotary_embedding: X: expected 3 or 4 dimensions, got {X.dim()}")
    width = rotary_embedding_dim or x.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    cos, sin = (c if position_ids is None else c[position_ids] for c in (cos_cache, sin_cache))
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    one, two = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    real, imaginary = cos * one - sin * two, sin * one + cos * two
    made = tessera.stack((real, imaginary), -1).flatten(-2) if interleaved else tessera.cat((real, imaginary), -1)
    made = tessera.cat((made, rest), -1)
    return made.flatten(-2) if X.dim() == 3 else made.transpose(1, 2)


def _heads(x, n, what):
    if x.dim() == 4:
        return x
    if n <= 0:
        raise ValueError(f"attention: {what} of three dimensions needs its number of heads")
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def attention(Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=False, kv_num_heads=0,
              q_num_heads=0, qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None):  # fmt: skip
    q, k, v = _heads(Q, q_num_heads, "Q"), _heads(K, kv_num_heads, "K"), _heads(V, kv_num_heads, "V")
    if past_key is not None:
        k, v = tessera.cat((past_key, k), 2), tessera.cat((past_value, v), 2)
    key, value = k.clone(), v.clone()
    times = q.shape[1] // k.shape[1]
    if times != 1:
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    products = (q * root) @ (k * root).transpose(-1, -2)
    bias = tessera.zeros(products.shape[-2:], dtype=products.dtype)
    if is_causal:
        bias = bias.masked_fill(~tessera.ones(bias.shape, dtype=tessera.bool).tril(k.shape[2] - q.shape[2]
                                if past_key is not None else 0), -math.inf)  # fmt: skip
    if attn_mask is not None:
        added = attn_mask
        if attn_mask.dtype == tessera.bool:
            added = tessera.zeros(attn_mask.shape, dtype=q.dtype).masked_fill(~attn_mask, -math.inf)
        bias = bias + added
    masked = products + bias
    capped = softcap * tessera.tanh(masked / softcap) if softcap else masked
    kind = FROM_ONNX[softmax_precision] if softmax_precision else q.dtype
    weights = capped.to(kind).softmax(-1).to(q.dtype)
    y = weights @ v
    y = y.transpose(1, 2).flatten(-2) if Q.dim() == 3 else y
    return y, key, value, (products, masked, capped, weights)[qk_matmul_output_mode].clone()


def _define():
    library = tessera.library.Library("onnx", "DEF")
    library.define(
        "RotaryEmbedding.opset23(Tensor X, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, "
        "bool interleaved=False, int num_heads=0, int rotary_embedding_dim=0) -> Tensor"
    )
    library.define(
        "Attention.opset23(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, "
        "Tensor? past_value=None, *, bool is_causal=False, int kv_num_heads=0, int q_num_heads=0, "
        "int qk_matmul_output_mode=0, float? scale=None, float softcap=0.0, int? softmax_precision=None) -> "
        "(Tensor, Tensor, Tensor, Tensor)"
    )
    for name, function in (("RotaryEmbedding", rotary_embedding), ("Attention", attention)):
        for key in ("CompositeExplicitAutograd", "Meta"):
            library.impl(name + ".opset23", function, key)
    return library


_LIBRARY = _define()
