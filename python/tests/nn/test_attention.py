"""Attention in blocks against its definition, written out: results, first, second and third derivatives;
MultiheadAttention in its layouts.
"""

import pytest

import tessera as torch
from tessera import nn
from tessera.nn import functional as F


def definition(q, k, v, mask=None, causal=False, gqa=False):
    return torch._scaled_dot_product_attention_math(q, k, v, mask, 0.0, causal, None, enable_gqa=gqa)[0]


def check(q, k, v, mask=None, causal=False, gqa=False):
    q, k, v = [t.double().requires_grad_() for t in (q, k, v)]
    directions = [torch.randn_like(t) for t in (q, k, v)]
    results = []
    for f in (
        lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=gqa),
        lambda: definition(q, k, v, mask, causal, gqa),
    ):
        out = f()
        parts = [out]
        value = (out * torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape).sin()).sum()
        for order in range(3):
            grads = torch.autograd.grad(value, (q, k, v), create_graph=order < 2)
            parts.extend(grads)
            value = sum((g * d).sum() for g, d in zip(grads, directions))
        results.append(parts)
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def sizes(batch, heads, kv_heads, queries, keys, dim, value_dim):
    return (
        torch.randn(batch, heads, queries, dim),
        torch.randn(batch, kv_heads, keys, dim),
        torch.randn(batch, kv_heads, keys, value_dim),
    )


@pytest.mark.parametrize("queries", [1, 5, 40])
def test_against_definition(queries):
    torch.manual_seed(0)
    check(*sizes(2, 4, 4, queries, 7, 8, 6))
    check(*sizes(2, 4, 4, queries, 7, 8, 8), causal=True)
    check(*sizes(2, 4, 2, queries, 70, 8, 8), gqa=True)
    for mask in (
        torch.rand(queries, 7) > 0.5,
        torch.randn(2, 1, 1, 7),
        torch.randn(2, 4, queries, 7),
        torch.zeros(queries, 7, dtype=torch.bool),
    ):
        check(*sizes(2, 4, 4, queries, 7, 8, 6), mask=mask if mask.dtype == torch.bool else mask.double())


def test_fewer_dimensions_and_broadcast():
    torch.manual_seed(0)
    check(torch.randn(4, 5, 8), torch.randn(4, 7, 8), torch.randn(4, 7, 6), mask=torch.randn(5, 7).double())
    check(torch.randn(5, 8), torch.randn(7, 8), torch.randn(7, 6))
    check(torch.randn(2, 4, 5, 8), torch.randn(1, 4, 7, 8), torch.randn(2, 1, 7, 6))
    check(torch.randn(2, 2, 4, 5, 8), torch.randn(2, 2, 4, 7, 8), torch.randn(2, 2, 4, 7, 6))


def test_mask_that_needs_a_gradient():
    q, k, v = sizes(1, 2, 2, 4, 6, 8, 8)
    mask = torch.zeros(4, 6, requires_grad=True)
    F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
    assert mask.grad.shape == (4, 6)


def test_layout_follows_query():
    x = torch.randn(2, 5, 4, 8)
    assert F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3).transpose(1, 2).is_contiguous()
    assert F.scaled_dot_product_attention(*[x] * 3).is_contiguous()


def test_multihead_batch_first():
    torch.manual_seed(0)
    a, b = nn.MultiheadAttention(16, 4, batch_first=True), nn.MultiheadAttention(16, 4)
    b.load_state_dict(a.state_dict())
    x, y = torch.randn(3, 6, 16), torch.randn(3, 5, 16)
    padding = torch.tensor([[False] * n + [True] * (6 - n) for n in (6, 3, 1)])
    masks = [
        {},
        {"key_padding_mask": padding},
        {"attn_mask": torch.rand(6, 6) > 0.9},
        {"attn_mask": torch.randn(12, 6, 6)},
        {"attn_mask": torch.randn(6, 6), "key_padding_mask": torch.zeros(3, 6).masked_fill(padding, float("-inf"))},
        {"attn_mask": nn.Transformer.generate_square_subsequent_mask(6), "is_causal": True},
    ]
    for options in masks:
        t = x.transpose(0, 1)
        out = a(x, x, x, need_weights=False, **options)[0]
        torch.testing.assert_close(out, b(t, t, t, need_weights=False, **options)[0].transpose(0, 1), equal_nan=True)
        torch.testing.assert_close(out, a(x, x, x, **options)[0], equal_nan=True)
    torch.testing.assert_close(a(x, y, y, need_weights=False)[0], a(x, y, y)[0])


def attend(**changed):
    sizes = {"query": (5, 3, 8), "key": (5, 3, 8), "value": (5, 3, 8)}
    arguments = {name: torch.ones(changed.pop(name, size)) for name, size in sizes.items()}
    arguments.update(
        embed_dim_to_check=8,
        num_heads=2,
        in_proj_weight=torch.ones(24, 8),
        in_proj_bias=None,
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=torch.ones(8, 8),
        out_proj_bias=None,
    )
    return F.multi_head_attention_forward(**{**arguments, **changed})


WRONG = {
    "rank of query": (AssertionError, "should be unbatched 2D or batched 3D", {"query": (2,)}),
    "ranks that differ": (AssertionError, "to be 3-D but found 2-D and 3-D tensors", {"key": (5, 8)}),
    "rank of padding": (AssertionError, "`key_padding_mask` to be", {"key_padding_mask": torch.ones(3, 5, 1)}),
    "rank of mask": (AssertionError, "`attn_mask` to be `None`, 2-D or 3-D", {"attn_mask": torch.ones(5)}),
    "mask (L, S)": (RuntimeError, r"The shape of the 2D attn_mask is .*\[4, 5\]", {"attn_mask": torch.ones(4, 5)}),
    "mask (N H, L, S)": (RuntimeError, r"should be \(6, 5, 5\)", {"attn_mask": torch.ones(4, 5, 5)}),
    "dtype of mask": (AssertionError, "only bool and floating types", {"attn_mask": torch.ones(5, 5).int()}),
    "no tensor as mask": (RuntimeError, "key_padding_mask must be None or a tensor, but got", {"key_padding_mask": 3}),
    "padding (N, S)": (AssertionError, r"shape of \(3, 5\)", {"key_padding_mask": torch.ones(3, 4)}),
    "features": (AssertionError, "embedding dimension of 7, but got 8", {"embed_dim_to_check": 7}),
    "heads": (AssertionError, "not divisible by num_heads 3", {"num_heads": 3}),
    "keys and values": (AssertionError, "does not match value shape", {"key": (4, 3, 8)}),
    "no weight": (AssertionError, "in_proj_weight is None", {"in_proj_weight": None}),
    "no weight of its own": (AssertionError, "q_proj_weight is None", {"use_separate_proj_weight": True}),
    "one bias": (AssertionError, "have to be given together", {"bias_k": torch.ones(1, 1, 8)}),
    "static keys": (AssertionError, r"static_k.size\(0\) of 6, but got 5", {"static_k": torch.ones(5, 5, 4)}),
    "static values": (AssertionError, r"static_v.size\(2\) of 4, but got 3", {"static_v": torch.ones(6, 5, 3)}),
    "hint without a mask": (RuntimeError, "Need attn_mask", {"is_causal": True}),
}


@pytest.mark.parametrize("case", WRONG)
def test_multihead_wrong_arguments(case):
    error, message, changed = WRONG[case]
    if case == "no tensor as mask":  # the layer asks for the masks first
        with pytest.raises(error, match=message):
            nn.MultiheadAttention(8, 2)(*[torch.ones(5, 3, 8)] * 3, **changed)
        return
    with pytest.raises(error, match=message):
        attend(**changed)


def test_multihead_with_more_keys():
    """With and without weights the same: learned keys, given ones, zeros; masks grow with them."""
    torch.manual_seed(0)
    padding = torch.zeros(3, 5).masked_fill(torch.rand(3, 5) > 0.7, float("-inf"))
    given = {"static_k": torch.randn(6, 7, 4), "static_v": torch.randn(6, 7, 4)}
    learned = {"bias_k": torch.randn(1, 1, 8), "bias_v": torch.randn(1, 1, 8)}
    masks = {"attn_mask": torch.randn(5, 5), "key_padding_mask": padding}
    weight = torch.randn(24, 8)
    for keys, options in (
        (5, masks),
        (6, {**learned, **masks}),
        (7, {**learned, **masks, "add_zero_attn": True}),
        (7, given),
        (8, {**given, "add_zero_attn": True}),
    ):
        out, weights = attend(in_proj_weight=weight, **options)
        assert weights.shape == (3, 5, keys)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 5))
        torch.testing.assert_close(out, attend(in_proj_weight=weight, need_weights=False, **options)[0])


def test_multihead_without_queries_or_sequences():
    assert attend(query=(0, 3, 8))[0].shape == (0, 3, 8)
    assert attend(query=(5, 0, 8), key=(5, 0, 8), value=(5, 0, 8), need_weights=False)[0].shape == (5, 0, 8)


def test_multihead_hands_over_its_arguments():
    seen = []

    class Like:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append((function, args, kwargs))
            return "taken"

    mine = Like()
    assert F.multi_head_attention_forward(mine, 1, 2, 8, 2, *[None] * 8, need_weights=False) == "taken"
    ((function, args, kwargs),) = seen
    assert function is F.multi_head_attention_forward
    assert args == (mine, 1, 2, 8, 2, *[None] * 8)
    assert kwargs["need_weights"] is False and kwargs["average_attn_weights"] is True and len(kwargs) == 12
