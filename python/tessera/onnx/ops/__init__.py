"""Operators of ONNX for programs: they run here, too, and an export writes them as they are."""

import tessera
from tessera.onnx.ops import _eager
from tessera.onnx.ops._symbolic import symbolic, symbolic_multi_out

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]


def aten_decompositions():
    """{operator of this module: its composition of others}, for ExportedProgram.run_decompositions()."""
    return {
        tessera.ops.onnx.RotaryEmbedding.opset23: _eager.rotary_embedding,
        tessera.ops.onnx.Attention.opset23: _eager.attention,
    }


def rotary_embedding(
    X, cos_cache, sin_cache, position_ids=None, *, interleaved=False, num_heads=0, rotary_embedding_dim=0
):
    """Rotary embeddings, as the operator RotaryEmbedding of opset 23.

    Args:
        X: (batch, heads, length, width), or (batch, length, heads * width) with num_heads.
        cos_cache, sin_cache: (positions, rotated width / 2) with position_ids, else (batch, length, rotated width / 2).
        position_ids: (batch, length) whole numbers.
        interleaved: whether the two numbers of a pair lie beside each other; else in the two halves.
        num_heads: needed for X of three dimensions.
        rotary_embedding_dim: how much of the width is rotated; 0: all.

    Returns: a tensor like X.
    """
    return tessera.ops.onnx.RotaryEmbedding.opset23(
        X, cos_cache, sin_cache, position_ids, interleaved=interleaved, num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )  # fmt: skip


def attention(
    Q, K, V, attn_mask=None, past_key=None, past_value=None, *, is_causal=False, kv_num_heads=0, q_num_heads=0,
    qk_matmul_output_mode=0, scale=None, softcap=0.0, softmax_precision=None,
):  # fmt: skip
    """Attention, as the operator of opset 23.

    Args:
        Q, K, V: (batch, heads, length, width), or (batch, length, heads * width) with q_num_heads and kv_num_heads. Q
            may have more heads than K and V, a multiple of theirs.
        attn_mask: that fits (batch, heads, length of Q, length of K): bool (True: is looked at) or numbers to be added.
        past_key, past_value: (batch, heads, past length, width) that go before K and V.
        is_causal: whether each place sees what is up to it alone.
        qk_matmul_output_mode: what the fourth result is: 0 the products, 1 these with the mask, 2 after softcap, 3
            after softmax.
        scale: of the products; None: 1 / sqrt(width).
        softcap: limit c of the products as c * tanh(products / c); 0: none.
        softmax_precision: number of a dtype of ONNX to compute softmax in.

    Returns: (Y like Q, present key, present value, products).
    """
    return tessera.ops.onnx.Attention.opset23(
        Q, K, V, attn_mask, past_key, past_value, is_causal=is_causal, kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads, qk_matmul_output_mode=qk_matmul_output_mode, scale=scale, softcap=softcap,
        softmax_precision=softmax_precision,
    )  # fmt: skip
