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
