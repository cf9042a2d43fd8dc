"""flex_attention, block masks and attention over packed sequences, against the formulas written out."""

import math

import pytest
import tessera
from tessera.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)
from tessera.nn.attention.varlen import AuxRequest as VarlenAuxRequest
from tessera.nn.attention.varlen import varlen_attn


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def near(b, h, q_idx, kv_idx):
    return (q_idx - kv_idx).abs() <= 3


def second_head(b, h, q_idx, kv_idx):
    return h == 1


def inputs(*shape, keys=None, heads=None, **options):
    tessera.manual_seed(0)
    key_shape = (shape[0], heads or shape[1], keys or shape[2], shape[3])
    return tuple(tessera.randn(s, dtype=tessera.float64, **options) for s in (shape, key_shape, key_shape))


def reference(q, k, v, bias=0.0, mask=None):
    """(output, lse) with numbers that are written down one row at a time."""
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse.masked_fill(lse.isinf(), 0.0).unsqueeze(-1)).exp() @ v, lse


def assert_close(a, b):
    tessera.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_without_functions_it_is_attention():
    q, k, v = inputs(2, 3, 5, 4, keys=7)
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))
    want, lse = reference(q, k, v)
    assert_close(out, want), assert_close(aux.lse, lse), assert_close(flex_attention(q, k, v), want)
    assert_close(aux.max_scores, (q @ k.mT / 2).amax(-1))
    assert_close(flex_attention(q, k, v, scale=0.1), reference(q * 0.2, k, v)[0])
    assert_close(flex_attention(q, k, v, return_lse=True)[1], lse)
    assert flex_attention(q, k, v, return_aux=AuxRequest())[1] == (None, None)


def test_score_functions_see_all_indices():
    q, k, v = inputs(2, 3, 5, 4, keys=7)
    table = tessera.randn(2, 3, 12, dtype=tessera.float64)
    i, j = tessera.arange(5)[:, None], tessera.arange(7)

    def score_mod(score, b, h, q_idx, kv_idx):
        return score * (b + 1) + table[b][h, q_idx - kv_idx + 6]

    got = flex_attention(q, k, v, score_mod)
    scores = (q @ k.mT / 2) * tessera.tensor([1.0, 2.0]).view(2, 1, 1, 1) + table[:, :, i - j + 6]
    assert_close(got, scores.softmax(-1) @ v)


def test_gradients_reach_inputs_and_what_functions_capture():
    q, k, v = inputs(1, 2, 4, 3, requires_grad=True)
    table = tessera.randn(2, 7, dtype=tessera.float64, requires_grad=True)
    mask = create_block_mask(and_masks(causal, near), None, None, 4, 4, BLOCK_SIZE=2)

    def run(q, k, v, table):
        out, aux = flex_attention(
            q, k, v, lambda s, b, h, i, j: s + table[h, i - j + 3], mask, return_aux=AuxRequest(lse=True)
        )
        return out, aux.lse

    assert tessera.autograd.gradcheck(run, (q, k, v, table))


def test_queries_without_keys_give_zero():
    q, k, v = inputs(1, 1, 4, 4, requires_grad=True)
    mask = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx > kv_idx, 1, 1, 4, 4, BLOCK_SIZE=2)
    for score_mod in (None, lambda score, b, h, q_idx, kv_idx: score):
        out, aux = flex_attention(q, k, v, score_mod, mask, return_aux=AuxRequest(lse=True))
        assert out[0, 0, 0].eq(0).all() and aux.lse[0, 0, 0] == -math.inf
        assert_close(out, flex_attention(q, k, v, score_mod, mask))
        (out.sum() + aux.lse[..., 1:].sum()).backward()
        assert q.grad.isfinite().all() and q.grad[0, 0, 0].eq(0).all()


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16, tessera.float32])
def test_dtypes(dtype):
    q, k, v = (t.to(dtype) for t in inputs(1, 2, 6, 4))
    out, aux = flex_attention(q, k, v, lambda s, b, h, i, j: s + i, return_aux=AuxRequest(lse=True))
    assert out.dtype is dtype and aux.lse.dtype is tessera.float32
    want = reference(*(t.double() for t in (q, k, v)))[0]
    tessera.testing.assert_close(out.double(), want, rtol=0, atol=1e-2 if dtype.itemsize == 2 else 1e-6)


def test_shared_keys():
    q, k, v = inputs(2, 4, 5, 4, heads=2)
    wide = tuple(t.repeat_interleave(2, 1) for t in (k, v))
    want = reference(q, *wide)[0]
    assert_close(flex_attention(q, k, v, enable_gqa=True), want)
    assert_close(flex_attention(q, k, v, lambda s, b, h, i, j: s, enable_gqa=True), want)
    mask = create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=2)
    assert_close(
        flex_attention(q, k[:1], v[:1], block_mask=mask, enable_gqa=True),
        reference(q, wide[0][:1], wide[1][:1], mask=tessera.ones(5, 5).tril().bool())[0],
    )


@pytest.mark.parametrize("mask_mod", [causal, near, and_masks(causal, near), or_masks(near, second_head), noop_mask])
@pytest.mark.parametrize("block", [2, (3, 4), 128])
def test_block_masks_keep_what_their_function_keeps(mask_mod, block):
    q, k, v = inputs(2, 3, 10, 4, keys=7)
    dense = create_mask(mask_mod, 2, 3, 10, 7)
    assert dense.dtype is tessera.bool
    mask = create_block_mask(mask_mod, 2, 3, 10, 7, BLOCK_SIZE=block)
    assert mask.shape == (2, 3, 10, 7) and mask._mask(2, 3).equal(dense)
    assert_close(flex_attention(q, k, v, block_mask=mask), reference(q, k, v, mask=dense)[0])
    assert_close(
        flex_attention(q, k, v, lambda s, b, h, i, j: s + h, mask),
        reference(q, k, v, mask=dense)[0],
    )


def test_tensors_of_a_block_mask():
    mask = create_block_mask(causal, None, None, 300, 260)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]] and mask.kv_indices.dtype is tessera.int32
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]] and mask.q_indices.tolist() == [
        [[[0, 2, 1], [1, 2, 0], [2, 0, 1]]]
    ]
    assert mask.full_q_num_blocks.tolist() == [[[1, 0, 0]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask.numel() == 78000 and mask.sparsity() == pytest.approx(100 / 3) and mask.BLOCK_SIZE == (128, 128)
    assert len(mask.as_tuple()) == 13 and mask.as_tuple(flatten=False)[0] == (300, 260)
    again = BlockMask(*mask.as_tuple(flatten=False))
    assert again.to_dense().equal(mask.to_dense()) and again.mask_mod is causal
    assert "sparsity=33.33%" in repr(mask) and "mask_mod=causal" in repr(mask)
    assert mask.to_string().splitlines() == ["(0, 0)", "██    ", "████  ", "██████"]
    assert mask.to_string(2).splitlines() == ["(0, 0)", "░░  ", "████"]
    assert mask.to("meta").kv_indices.is_meta and mask.to("cpu").seq_lengths == (300, 260)


def test_blocks_that_are_not_named_are_not_attended_to():
    counts = tessera.tensor([[[1, 2]]], dtype=tessera.int32)
    columns = tessera.tensor([[[[0, 1], [1, 0]]]], dtype=tessera.int32)
    mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2)
    assert mask.seq_lengths == (4, 4) and mask.mask_mod is noop_mask and mask.q_num_blocks.tolist() == [[[2, 1]]]
    q = tessera.ones(1, 1, 4, 2)
    v = tessera.arange(8.0).view(1, 1, 4, 2)
    assert flex_attention(q, q, v, block_mask=mask).tolist() == [[[[1, 2], [1, 2], [3, 4], [3, 4]]]]
    both = BlockMask.from_kv_blocks(counts * 0, columns, counts, columns, BLOCK_SIZE=2, mask_mod=causal)
    assert flex_attention(q, q, v, block_mask=both).tolist() == [[[[1, 2], [1, 2], [3, 4], [3, 4]]]]
    assert BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=2, compute_q_blocks=False).q_indices is None


def test_parts_of_block_masks():
    mask = create_block_mask(or_masks(causal, second_head), 2, 3, 10, 7, BLOCK_SIZE=2)
    dense = mask.to_dense()
    for index in (0, -1, (1, 2), (slice(None), slice(1, 3)), (0, 1, slice(2, 5)), (0, 0, tessera.tensor([4, 1]))):
        part = mask[index]
        keep = tuple(
            slice(i, i + 1 or None) if isinstance(i, int) else i for i in (index if type(index) is tuple else (index,))
        )
        assert part.to_dense().equal(dense[keep]) and len(part.shape) == 4
    assert mask[0, 0, 1:].shape == (1, 1, 8, 7)
    q, k, v = inputs(2, 3, 4, 4, keys=7)
    rows = mask[:, :, 2:4]
    with pytest.raises(RuntimeError, match=r"set block_mask\.mask_mod"):
        flex_attention(q, k, v, block_mask=rows)
    rows.mask_mod = lambda b, h, q_idx, kv_idx: or_masks(causal, second_head)(b, h, q_idx + 4, kv_idx)
    want = create_mask(or_masks(causal, second_head), 2, 3, 10, 7)[:, :, 4:8]
    assert_close(flex_attention(q, k, v, block_mask=rows), reference(q, k, v, mask=want)[0])
    less = mask._adjust(5, 3)
    assert less.shape == (2, 3, 5, 3) and less._mask(2, 3).equal(create_mask(mask.mask_mod, 2, 3, 5, 3))
    with pytest.raises(ValueError, match="can be cut, but not extended"):
        mask._adjust(11, 7)
    with pytest.raises(IndexError):
        mask[0, 0, 0, 0]


def test_score_functions_make_masks():
    mask = create_mask(lambda s, b, h, i, j: tessera.where(i >= j, s, -math.inf), 1, 1, 3, 3)
    assert mask.equal(create_mask(causal, None, None, 3, 3))


BAD = {
    "4 heads and key 2": lambda q: flex_attention(q, q[:, :2], q[:, :2]),
    "multiple of those of key": lambda q: flex_attention(q, q[:, :3], q[:, :3], enable_gqa=True),
    "the same dtype": lambda q: flex_attention(q, q.float(), q),
    "number of features, but got 4 and 3": lambda q: flex_attention(q, q[..., :3], q),
    "key and value need": lambda q: flex_attention(q, q, q[:, :, :2]),
    "the same batch size": lambda q: flex_attention(q, q[:1], q[:1]),
    "give one of them": lambda q: flex_attention(q, q, q, return_lse=True, return_aux=AuxRequest()),
    "kernel_options has no": lambda q: flex_attention(q, q, q, kernel_options={"BLOCK_M": 64, "fwd_nosuch": 1}),
    "BLOCK_SIZE is": lambda q: create_block_mask(causal, 1, 1, 4, 4, BLOCK_SIZE=(1, 2, 3)),
    "cu_seq_k must rise from 0": lambda q: varlen(q, tessera.tensor([0, 5]), tessera.tensor([1, 5])),
    "1 sequences, cu_seq_k of 2": lambda q: varlen(q, tessera.tensor([0, 5]), tessera.tensor([0, 1, 5])),
    "sequence 0 has 5 queries": lambda q: varlen(q, tessera.tensor([0, 5]), tessera.tensor([0, 5]), 4),
}


def varlen(q, cu_q, cu_k, longest=5):
    q = q[0].transpose(0, 1)
    return varlen_attn(q, q, q, cu_q, cu_k, longest, longest)


@pytest.mark.parametrize("text", BAD)
def test_bad_values(text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        BAD[text](inputs(2, 4, 5, 4)[0])


def test_bad_block_masks():
    q = inputs(2, 4, 5, 4)[0]
    for lengths, text in (((4, 5), "make a new one$"), ((9, 5), "or cut it")):
        with pytest.raises(ValueError, match=text):
            flex_attention(q, q, q, block_mask=create_block_mask(causal, 1, 1, *lengths))
    with pytest.raises(RuntimeError, match="number of heads 3, but query has 4"):
        flex_attention(q, q, q, block_mask=create_block_mask(causal, 1, 3, 5, 5))
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        BlockMask.from_kv_blocks(tessera.ones(1), tessera.ones(1))
    with pytest.raises(AssertionError, match="both provided or omitted"):
        BlockMask.from_kv_blocks(tessera.ones(1, 1, 1), tessera.ones(1, 1, 1, 1), tessera.ones(1, 1, 1))
    with pytest.raises(NotImplementedError, match="have 3, 4 and 4 dimensions"):
        flex_attention(q[0], q, q)
    with pytest.raises(TypeError, match="a dict, but got int"):
        flex_attention(q, q, q, kernel_options=3)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1), (0, -1)])
@pytest.mark.parametrize("heads", [4, 2])
def test_packed_sequences(window, heads):
    lengths = [(2, 2), (4, 6), (0, 3), (1, 1)]
    cu_q, cu_k = (tessera.tensor([0] + [pair[i] for pair in lengths]).cumsum(0) for i in (0, 1))
    tessera.manual_seed(0)
    q = tessera.randn(7, 4, 3, dtype=tessera.float64, requires_grad=True)
    k, v = (tessera.randn(12, heads, 3, dtype=tessera.float64) for _ in range(2))
    arguments = (q, k, v, cu_q, cu_k, 4, 6)
    out, lse = varlen_attn(*arguments, return_aux=VarlenAuxRequest(lse=True), window_size=window)
    assert_close(out, varlen_attn(*arguments, window_size=window)), out.sum().backward()
    assert out.shape == (7, 4, 3) and lse.shape == (4, 7) and q.grad.isfinite().all()
    for n, (queries, keys) in enumerate(lengths):
        rows, columns = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        one = [t[where].transpose(0, 1) for t, where in ((q, rows), (k, columns), (v, columns))]
        one[1:] = (t.repeat_interleave(4 // heads, 0) for t in one[1:])
        place = tessera.arange(queries)[:, None] + keys - queries
        seen = tessera.arange(keys)
        left, right = (10 if side < 0 else side for side in window)
        want, want_lse = reference(*one, mask=(seen >= place - left) & (seen <= place + right))
        assert_close(out[rows].transpose(0, 1), want), assert_close(lse[:, rows], want_lse)
