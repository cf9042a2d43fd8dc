"""Translations of recurrent layers and attention."""

import math

from tessera.onnx._operators.pointwise import truth
from tessera.onnx._table import aten
from tessera.onnx._types import BOOL

# By the kind of a recurrent layer: the operator of ONNX and the order in which it wants the blocks of rows.
_LAYERS = {0: ("LSTM", (0, 3, 1, 2)), 1: ("GRU", (1, 0, 2)), 2: ("RNN", (0,)), 3: ("RNN", (0,))}


def _ordered(b, x, order, size):
    """The blocks of rows (dimension 1) of each direction's matrix or vector in another order."""
    if len(order) == 1:
        return x
    parts = b.split(x, [size] * len(order), 1)
    return b.op("Concat", *[parts[i] for i in order], axis=1)


def _source(gates):
    """(rows, weight, bias) of the linear layer that made the gates; None if something else did."""
    while gates.note is None:
        node = gates.node
        if node is None or node.op not in ("Reshape", "Identity", "Unsqueeze"):
            return None
        gates = node.inputs[0]
    return gates.note[1:] if gates.note[0] == "linear" else None


@aten("_rnn_layer")
def rnn_layer(b, gates, h0, c0, w_hh, b_hh, w_hr, kind, reverse, batch_sizes=(), for_backward=True):
    if batch_sizes or w_hr is not None:
        raise NotImplementedError("recurrent layers with projections, or of packed sequences, have no operator of ONNX")
    op, order = _LAYERS[kind]
    both, hidden = b.dim(h0, 0), b.dim(h0, -1)
    rows, sizes = len(order) * hidden, b.dims(gates)
    source = _source(gates)
    if source is None:
        steps, w_ih, b_ih = gates, b.value(_unit(both * rows, gates.dtype)), None
    else:
        x, w_ih, b_ih = source
        steps = b.op("Reshape", x, b.ints([*sizes[:2], b.dim(w_ih, 1)]))
    w_ih = b.op("Reshape", w_ih, b.ints([both, rows, b.dim(w_ih, 1)]))
    weights = [_ordered(b, w, order, hidden) for w in (w_ih, w_hh)]
    bias = None
    if b_ih is not None or b_hh is not None:
        none = b.const([[0.0] * rows] * both, gates.dtype)
        b_ih = None if b_ih is None else b.op("Reshape", b_ih, b.ints([both, rows]))
        bias = b.op("Concat", *[none if v is None else _ordered(b, v, order, hidden) for v in (b_ih, b_hh)], axis=1)
    direction = "bidirectional" if both == 2 else "reverse" if reverse else "forward"
    attrs = {"hidden_size": hidden, "direction": direction}
    if kind == 1:
        attrs["linear_before_reset"] = 1
    if op == "RNN":
        attrs["activations"] = ["Tanh" if kind == 2 else "Relu"] * both
    inputs = [steps, *weights, bias, None, h0, *([c0] if kind == 0 else [])]
    made = b.op(op, *inputs, outputs=3 if kind == 0 else 2, **attrs)
    if both == 1:
        out = b.squeeze(made[0], 1)
    else:
        out = b.op("Reshape", b.transpose(made[0], [0, 2, 1, 3]), b.ints([*sizes[:2], both * hidden]))
    return out, made[1], made[2] if kind == 0 else None, None, None


def _unit(n, dtype):
    import tessera
    from tessera.onnx._build import _plain

    with _plain():
        return tessera.eye(n, dtype=dtype)


def softmax_over(b, scores, masked):
    made = b.Softmax(scores, axis=-1)
    return b.Where(b.IsNaN(made), 0, made) if masked else made  # rows without anything to look at give zeros


def allowed_before(b, rows, columns):
    """Which columns a row of causal attention sees."""
    if b.opset >= 14:
        return b.op("Trilu", b.full([rows, columns], True, BOOL), upper=0)
    line = lambda n: b.op("Range", b.value(0), b.value(n), b.value(1))  # noqa: E731
    return b.LessOrEqual(b.unsqueeze(line(columns), 0), b.unsqueeze(line(rows), 1))


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):  # fmt: skip
    if dropout_p:
        raise NotImplementedError("attention with dropout: export the model after eval()")
    n = key.rank
    width = b.dim(query, -1)
    if scale is None and not isinstance(width, int):
        raise NotImplementedError("attention over heads whose width may differ, without a scale")
    root = math.sqrt(1 / math.sqrt(width) if scale is None else float(scale))
    if enable_gqa and isinstance(b.dim(query, -3), int) and b.dim(query, -3) != b.dim(key, -3):
        times = b.dim(query, -3) // b.dim(key, -3)
        key, value = (_heads_repeated(b, x, times) for x in (key, value))
    turned = b.transpose(key, [*range(n - 2), n - 1, n - 2])
    scores = b.MatMul(query * root, turned * root)
    masked = attn_mask is not None
    if is_causal:
        allowed = allowed_before(b, b.dim(query, -2), b.dim(key, -2))
        scores = b.Where(allowed, scores, b.value(-math.inf, query.dtype))
    if masked and attn_mask.dtype == BOOL:
        scores = b.Where(truth(b, attn_mask), scores, b.value(-math.inf, query.dtype))
    elif masked:
        scores = scores + b.to(attn_mask, query.dtype)
    return b.MatMul(softmax_over(b, scores, masked), value)


def _heads_repeated(b, x, times):
    sizes = b.dims(x)
    one = b.unsqueeze(x, -3)
    whole = b.expand(one, [*sizes[:-2], times, *sizes[-2:]])
    return b.op("Reshape", whole, b.ints([*sizes[:-3], sizes[-3] * times, *sizes[-2:]]))


@aten("_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention")
def flash(b, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, attn_mask=None, scale=None):
    return (scaled_dot_product_attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale), *[None] * 8)


@aten("_scaled_dot_product_attention_math")
def math_attention(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, scale=None,
                   enable_gqa=False):  # fmt: skip
    return scaled_dot_product_attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa), None


# --- the operators of torch.onnx.ops ---


@aten("RotaryEmbedding", namespace="onnx")
def rotary_embedding(b, X, cos_cache, sin_cache, position_ids=None, interleaved=False, num_heads=0,
                     rotary_embedding_dim=0):  # fmt: skip
    _of_23(b, "RotaryEmbedding")
    return b.op("RotaryEmbedding", X, cos_cache, sin_cache, position_ids, interleaved=int(interleaved),
                num_heads=num_heads or None, rotary_embedding_dim=rotary_embedding_dim or None)  # fmt: skip


@aten("Attention", namespace="onnx")
def attention(b, Q, K, V, attn_mask=None, past_key=None, past_value=None, is_causal=False, kv_num_heads=0,
              q_num_heads=0, qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None):  # fmt: skip
    _of_23(b, "Attention")
    return b.op("Attention", Q, K, V, attn_mask, past_key, past_value, is_causal=int(is_causal),
                kv_num_heads=kv_num_heads or None, q_num_heads=q_num_heads or None,
                qk_matmul_output_mode=qk_matmul_output_mode, scale=None if scale is None else float(scale),
                softcap=float(softcap), softmax_precision=softmax_precision, outputs=4)  # fmt: skip


def _of_23(b, op):
    if b.opset < 23:
        raise NotImplementedError(f"onnx.ops.{op} is of opset_version 23, not {b.opset}")
