"""Operators of sparse tensors against the same operators of strided ones, and the layouts of their results."""

import pytest
import tessera

LAYOUTS = {
    "coo": {"layout": tessera.sparse_coo},
    "csr": {"layout": tessera.sparse_csr},
    "csc": {"layout": tessera.sparse_csc},
    "bsr": {"layout": tessera.sparse_bsr, "blocksize": (2, 1)},
    "bsc": {"layout": tessera.sparse_bsc, "blocksize": (2, 1)},
}
DENSE = tessera.tensor([[0.0, -0.5, 0.3], [0.4, 0.0, 0.0], [0.0, 0.0, 0.0], [0.9, 0.0, -0.25]])
UNARY = """
    abs asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p
    neg positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc nan_to_num angle
""".split()


def uncoalesced():
    t = DENSE.to_sparse()
    return tessera.sparse_coo_tensor(
        tessera.cat([t.indices(), t.indices()], 1), tessera.cat([t.values() * 0.25, t.values() * 0.75]), t.shape
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_zero_that_are_zero_keep_the_elements(name, layout):
    t = DENSE.abs().to_sparse(**LAYOUTS[layout])
    got, want = getattr(tessera, name)(t), getattr(tessera, name)(DENSE.abs())
    assert got.layout == t.layout and got.dtype == want.dtype
    tessera.testing.assert_close(got.to_dense(), want)
    if want.dtype == t.dtype:
        out = tessera.zeros_like(t)
        if name != "positive":
            assert getattr(tessera, name)(t, out=out) is out
            tessera.testing.assert_close(out.to_dense(), want)
        if hasattr(t, name + "_"):
            again = t.clone()
            assert getattr(again, name + "_")() is again and again._version == 1
            tessera.testing.assert_close(again.to_dense(), want)


@pytest.mark.parametrize("name", ["sin", "abs", "sqrt", "neg"])
def test_duplicates_are_added_before_functions_that_are_not_linear(name):
    t = uncoalesced()
    got = getattr(tessera, name)(t)
    tessera.testing.assert_close(got.to_dense(), getattr(tessera, name)(DENSE), equal_nan=True)
    assert got.is_coalesced() is (name != "neg")
    if name != "neg":
        with pytest.raises(RuntimeError, match="uncoalesced"):
            getattr(t, name + "_")()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_and_products(layout):
    a, b = DENSE.to_sparse(**LAYOUTS[layout]), DENSE.roll(1, 0).to_sparse(**LAYOUTS[layout])
    d = tessera.arange(12.0).reshape(4, 3)
    for got, want in (
        (a + b, DENSE + DENSE.roll(1, 0)),
        (a - b, DENSE - DENSE.roll(1, 0)),
        (tessera.add(a, b, alpha=3), DENSE + 3 * DENSE.roll(1, 0)),
        (a * b, DENSE * DENSE.roll(1, 0)),
        (a * d, DENSE * d),
        (d * a, DENSE * d),
        (a * d[0], DENSE * d[0]),
        (a * 3, DENSE * 3),
        (a * tessera.tensor(3.0), DENSE * 3),
        (a / 4, DENSE / 4),
        (-a, -DENSE),
        (a**2, DENSE**2),
    ):
        assert got.layout == a.layout
        tessera.testing.assert_close(got.to_dense(), want)
    for got, want in ((d + a, d + DENSE), (d - a, d - DENSE)):
        assert got.layout == tessera.strided
        tessera.testing.assert_close(got, want)
    again = a.clone()
    again += b
    again *= 2
    tessera.testing.assert_close(again.to_dense(), 2 * (DENSE + DENSE.roll(1, 0)))
    d += a
    tessera.testing.assert_close(d, tessera.arange(12.0).reshape(4, 3) + DENSE)


def test_sums_of_sparse_and_dense_have_an_order():
    with pytest.raises(RuntimeError, match=r"Use add\(dense, sparse\) instead"):
        DENSE.to_sparse() + DENSE
    with pytest.raises(RuntimeError, match="zero-dim dense tensor divisor"):
        DENSE.to_sparse() / DENSE
    with pytest.raises(RuntimeError, match="sizes of 'self' and 'other' to match"):
        DENSE.to_sparse() + DENSE[:2].to_sparse()
    with pytest.raises(RuntimeError, match="zeroth power"):
        DENSE.to_sparse() ** 0


def test_dtypes_are_promoted():
    a = DENSE.to_sparse()
    assert (a + a.double()).dtype is tessera.float64 and (a * a.int()).dtype is tessera.float32
    assert (a.int() * 2.5).dtype is tessera.float32 and (a.int() / 2).dtype is tessera.float32
    with pytest.raises(RuntimeError, match="can't be cast"):
        a.int().add_(a)
    assert a.to(tessera.float64).to_dense().tolist() == DENSE.double().tolist() and a.float() is a


def test_shapes():
    t, h = DENSE.to_sparse(), tessera.stack([DENSE, DENSE + DENSE], 2).to_sparse(2)
    d = h.to_dense()
    for got, want in (
        (t.t(), DENSE.t()),
        (t.unsqueeze(1), DENSE.unsqueeze(1)),
        (t[1], DENSE[1]),
        (t[1, 0], DENSE[1, 0]),
        (t[None], DENSE[None]),
        (t[..., 2], DENSE[..., 2]),
        (t[1:3], DENSE[1:3]),
        (h[..., 0:1], d[..., 0:1]),
        (h[..., 1], d[..., 1]),
        (h.transpose(0, 1), d.transpose(0, 1)),
        (h.permute(1, 0, 2), d.permute(1, 0, 2)),
        (h.unsqueeze(3), d.unsqueeze(3)),
        (t.narrow_copy(0, 1, 2), DENSE[1:3]),
        (h.narrow_copy(2, 1, 1), d[..., 1:]),
        (t.index_select(0, tessera.tensor([3, 3, 0])), DENSE[[3, 3, 0]]),
        (h.index_select(2, tessera.tensor([1])), d[..., [1]]),
        (tessera.cat([t, t]), tessera.cat([DENSE, DENSE])),
        (tessera.cat([t, t], 1), tessera.cat([DENSE, DENSE], 1)),
        (tessera.cat([h, h], 2), tessera.cat([d, d], 2)),
        (tessera.stack([t, t], 1), tessera.stack([DENSE, DENSE], 1)),
        (t.sum(0), DENSE.sum(0)),
        (t.sum(), DENSE.sum()),
        (t.sum(1, keepdim=True), DENSE.sum(1, keepdim=True)),
        (h.sum(2), d.sum(2)),
        (h.sum((0, 1)), d.sum((0, 1))),
        (t.norm(), DENSE.norm()),
        (tessera.sparse.sum(h, (0, 2)), d.sum((0, 2))),
    ):
        tessera.testing.assert_close(got.to_dense(), want)
    assert [x.to_dense().tolist() for x in t] == DENSE.tolist() and len(t) == 4
    for call in (
        lambda: h.transpose(0, 2),
        lambda: t.reshape(3, 4),
        lambda: t.expand(2, 4, 3),
        lambda: t[4],
        lambda: t[[0]],
    ):
        with pytest.raises((RuntimeError, IndexError)):
            call()


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_rows_and_columns_of_compressed_tensors(layout):
    t = DENSE.to_sparse(**LAYOUTS[layout])
    assert tessera.equal(t[3].to_dense(), DENSE[3]) and tessera.equal(t[:, 0].to_dense(), DENSE[:, 0])
    assert t[0, 2].item() == DENSE[0, 2].item()


def test_products_of_vectors_and_batches():
    t, v = DENSE.to_sparse(), tessera.tensor([1.0, 2.0, 3.0])
    tessera.testing.assert_close(t @ v, DENSE @ v)
    tessera.testing.assert_close(tessera.addmv(tessera.ones(4), t, v, beta=2, alpha=3), 2 + 3 * (DENSE @ v))
    b = tessera.stack([DENSE, 2 * DENSE])
    tessera.testing.assert_close(tessera.bmm(b.to_sparse(), b.transpose(1, 2)), b @ b.transpose(1, 2))
    tessera.testing.assert_close(tessera.nn.functional.linear(v, t), DENSE @ v)
    assert tessera.sparse.mm(DENSE, DENSE.t()).equal(DENSE @ DENSE.t())
    for bad in (lambda: t @ DENSE, lambda: t @ v.double()):
        with pytest.raises(RuntimeError):
            bad()


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_with_other_reductions(reduce):
    d = tessera.randn(3, 5, generator=tessera.Generator().manual_seed(0))
    terms = DENSE[:, :, None] * d[None]
    there = (DENSE != 0)[:, :, None].expand_as(terms)
    want = {
        "sum": terms.sum(1),
        "mean": terms.sum(1) / there.sum(1).clamp(min=1),
        "amax": terms.masked_fill(~there, -tessera.inf).amax(1),
        "amin": terms.masked_fill(~there, tessera.inf).amin(1),
    }[reduce]
    got = tessera.sparse.mm(DENSE.to_sparse_csr(), d, reduce)
    tessera.testing.assert_close(got, want.masked_fill(want.isinf(), 0))


def test_masks_softmax_and_diagonals():
    d = tessera.arange(12.0).reshape(4, 3)
    for kind in LAYOUTS.values():
        mask = DENSE.to_sparse(**kind)
        got = d.sparse_mask(mask)
        want = d if "blocksize" in kind else d * (DENSE != 0)
        assert got.layout == mask.layout
        assert tessera.equal(got.to_dense() * (DENSE != 0), want * (DENSE != 0))
    t = DENSE.to_sparse()
    filled = DENSE.masked_fill(DENSE == 0, -tessera.inf)
    for dim in (0, 1):
        tessera.testing.assert_close(tessera.sparse.softmax(t, dim).to_dense(), filled.softmax(dim).nan_to_num())
        want = filled.log_softmax(dim)
        tessera.testing.assert_close(
            tessera.sparse.log_softmax(t, dim).to_dense(), want.masked_fill(DENSE == 0, 0), rtol=1e-5, atol=1e-6
        )


def test_in_place_changes_of_size():
    t = DENSE.to_sparse()
    t.sparse_resize_((5, 4), 2, 0)
    assert t.shape == (5, 4) and t.to_dense()[:4, :3].equal(DENSE)
    with pytest.raises(RuntimeError, match="shrinking the size of sparse dimensions"):
        t.sparse_resize_((1, 1), 2, 0)
    t.zero_()
    assert t._nnz() == 0 and t.shape == (5, 4)
    t.sparse_resize_and_clear_((2, 2, 3), 2, 1)
    assert t.shape == (2, 2, 3) and t.dense_dim() == 1
    other = tessera.sparse_coo_tensor((4, 3)).copy_(DENSE.to_sparse())
    assert other.to_dense().equal(DENSE)
    detached = other.detach()
    detached.zero_()
    assert other.to_dense().equal(DENSE) and other.is_same_size(detached)
    with pytest.raises(RuntimeError, match="dense and sparse"):
        tessera.ones(4, 3).copy_(other)


def test_semi_structured_matrices():
    dense = tessera.tensor([[0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 0.0], [0.0] * 8])
    t = tessera.sparse.to_sparse_semi_structured(dense)
    assert t.shape == (2, 8) and t.packed.shape == (2, 4) and t.to_dense().equal(dense)
    x = tessera.arange(16.0).reshape(8, 2)
    assert tessera.mm(t, x).equal(dense @ x) and (t @ x).equal(dense @ x)
    assert tessera.nn.functional.linear(x.t(), t).equal(x.t() @ dense.t())
    with pytest.raises(RuntimeError, match="2:4"):
        tessera.sparse.to_sparse_semi_structured(tessera.ones(2, 8))
    pruned = tessera.sparse.SparseSemiStructuredTensor.prune_dense_static_sort(tessera.tensor([[1.0, -4, 3, 2]]))
    assert pruned.to_dense().tolist() == [[0, -4, 3, 0]]
    with pytest.raises(NotImplementedError, match="specific set of operations"):
        tessera.sin(t)


def test_indices_of_rows():
    crow, col = tessera.tensor([[0, 2, 2, 3], [0, 1, 2, 3]]), tessera.tensor([[4, 5, 6], [7, 8, 9]])
    found = tessera._convert_indices_from_csr_to_coo(crow, col)
    assert found.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 2, 0, 1, 2], [4, 5, 6, 7, 8, 9]]
    assert tessera.equal(tessera._convert_indices_from_coo_to_csr(found[1, :3], 3), crow[0])
    turned = tessera._convert_indices_from_csr_to_coo(crow[0], col[0], out_int32=True, transpose=True)
    assert turned.dtype == tessera.int32 and turned.tolist() == [[4, 5, 6], [0, 0, 2]]
    none = tessera.tensor([], dtype=tessera.int32)
    assert tessera._convert_indices_from_coo_to_csr(none, 2, out_int32=True).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="vector"):
        tessera._convert_indices_from_coo_to_csr(crow, 3)
    with pytest.raises(NotImplementedError, match="float32"):
        tessera._convert_indices_from_coo_to_csr(tessera.ones(2), 3)


def test_smallest_and_largest_products_by_either_name():
    dense = tessera.arange(6.0).reshape(3, 2)
    for short in ("min", "max"):
        a, b = (tessera.sparse.mm(DENSE.to_sparse_csr(), dense, name) for name in (short, "a" + short))
        assert tessera.equal(a, b)
        pieces = [tessera.segment_reduce(dense, n, lengths=tessera.tensor([1, 2])) for n in (short, "a" + short)]
        assert tessera.equal(*pieces)


def test_sums_of_one_pattern_keep_it():
    t = tessera.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4, 5], (2, 3))
    assert (t + t)._nnz() == 3 and (t + t).to_dense().equal(2 * t.to_dense())
    assert t.sparse_mask(t).to_dense().equal(t.to_dense())


def test_results_whose_elements_can_be_asked_for():
    t = tessera.sparse_coo_tensor([[0, 1, 1]], [[1.0, 2], [3, 4], [5, 6]], (2, 2))
    assert t.sum(1).values().tolist() == [3, 18] and tessera.deg2rad(t).values().shape == (2, 2)
    assert DENSE.to_sparse_csc()[3].indices().tolist() == DENSE[3].nonzero().t().tolist()


def test_a_dense_tensor_times_a_sparse_one_in_place():
    d = tessera.ones(4, 3)
    assert d.mul_(2 * DENSE.to_sparse()) is d and d.equal(2 * DENSE)


@pytest.mark.parametrize(("height", "width", "columns"), [(40, 700, 600), (9, 5000, 70), (300, 20000, 16), (3, 4, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
def test_products_of_many_columns(height, width, columns, dtype):
    """Wide enough for columns to be brought together in panels, and for many pieces."""
    g, dtype = tessera.Generator().manual_seed(0), getattr(tessera, dtype)
    rows, at = (tessera.randint(0, n, (width * 9,), generator=g) for n in (height, width))
    values = tessera.randint(-3, 4, (width * 9,), generator=g).to(dtype)
    t = tessera.sparse_coo_tensor(tessera.stack([rows, at]), values, (height, width)).to_sparse_csr()
    d = tessera.randint(-3, 4, (width, columns), generator=g).to(dtype)
    assert (t @ d).equal(t.to_dense() @ d)
    wrong = t.col_indices().clone()
    wrong[-1] = width
    with pytest.raises(IndexError):
        tessera.sparse_csr_tensor(t.crow_indices(), wrong, t.values(), t.shape) @ d
