"""The sparse layouts against SciPy's: conversions between all of them, sums of duplicates, products."""

import numpy
import pytest
import scipy.sparse
import tessera
from hypothesis import given, settings
from hypothesis import strategies as st

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
KEYS = {name: getattr(tessera, f"sparse_{name}") for name in LAYOUTS}


@st.composite
def matrices(draw, most=7, even=False):
    """(rows, columns, values, shape) with duplicates, in any order."""
    step = 2 if even else 1
    height, width = (step * draw(st.integers(1, most)) for _ in range(2))
    n = draw(st.integers(0, 12))
    place = lambda size: draw(st.lists(st.integers(0, size - 1), min_size=n, max_size=n))
    values = draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))
    return place(height), place(width), values, (height, width)


def coo(case, dtype=tessera.float64):
    rows, columns, values, shape = case
    return tessera.sparse_coo_tensor(
        tessera.tensor([rows, columns], dtype=tessera.int64).reshape(2, -1), tessera.tensor(values, dtype=dtype), shape
    )


def scipy_of(case):
    rows, columns, values, shape = case
    return scipy.sparse.coo_matrix((numpy.array(values, dtype=float), (rows, columns)), shape=shape)


def in_layout(t, name):
    return t.to_sparse(layout=KEYS[name], **({"blocksize": (2, 2)} if name in ("bsr", "bsc") else {}))


@settings(max_examples=80, deadline=None)
@given(matrices())
def test_coalesce_is_scipys_sum_of_duplicates(case):
    t, want = coo(case).coalesce(), scipy_of(case).tocsr()
    want.sum_duplicates()
    want = want.tocoo()
    assert t.indices().tolist() == [want.row.tolist(), want.col.tolist()]
    assert t.values().tolist() == want.data.tolist()


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_compressed_members_are_scipys(case):
    t, want = coo(case), scipy_of(case)
    csr, csc = t.to_sparse_csr(), t.to_sparse_csc()
    want_csr, want_csc = want.tocsr(), want.tocsc()
    want_csr.sum_duplicates(), want_csc.sum_duplicates()
    assert csr.crow_indices().tolist() == want_csr.indptr.tolist()
    assert csr.col_indices().tolist() == want_csr.indices.tolist()
    assert csr.values().tolist() == want_csr.data.tolist()
    assert csc.ccol_indices().tolist() == want_csc.indptr.tolist()
    assert csc.row_indices().tolist() == want_csc.indices.tolist()
    assert csc.values().tolist() == want_csc.data.tolist()


@settings(max_examples=25, deadline=None)
@given(matrices(even=True))
def test_every_layout_to_every_other_keeps_the_matrix(case):
    want = scipy_of(case).toarray().tolist()
    dense = coo(case).to_dense()
    assert dense.tolist() == want
    for source in LAYOUTS:
        first = in_layout(coo(case), source)
        assert first.to_dense().tolist() == want and in_layout(dense, source).to_dense().tolist() == want
        for target in LAYOUTS:
            second = in_layout(first, target)
            assert second.layout == KEYS[target] and second.to_dense().tolist() == want, (source, target)
            check(second)


def check(t):
    """The members make a tensor of the layout, whatever invariants there are."""
    if t.is_sparse:
        return tessera._validate_sparse_coo_tensor_args(t._indices(), t._values(), t.shape, t.is_coalesced())
    rows = t.layout in (tessera.sparse_csr, tessera.sparse_bsr)
    members = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
    return tessera._validate_sparse_compressed_tensor_args(*members, t.values(), t.shape, t.layout)


@settings(max_examples=40, deadline=None)
@given(matrices(even=True), st.integers(1, 5), st.data())
def test_products_are_scipys(case, columns, data):
    height, width = case[3]
    numbers = data.draw(st.lists(st.integers(-5, 5), min_size=width * columns, max_size=width * columns))
    other = tessera.tensor(numbers, dtype=tessera.float64).reshape(width, columns)
    want = (scipy_of(case) @ other.numpy()).tolist()
    for name in LAYOUTS:
        t = in_layout(coo(case), name)
        assert (t @ other).tolist() == want, name
        assert tessera.mv(t, other[:, 0]).tolist() == [row[0] for row in want]
        assert (other.t() @ t.transpose(0, 1)).t().tolist() == want, name
    square = scipy_of(case) @ scipy_of(case).T
    for name in ("coo", "csr", "csc"):
        t = in_layout(coo(case), name)
        assert tessera.sparse.mm(t, t.transpose(0, 1)).to_dense().tolist() == square.toarray().tolist()


def test_the_order_of_many_keys_is_numpys():
    """Enough elements for buckets, and for pieces of several threads."""
    rng = numpy.random.default_rng(0)
    for n, sizes in ((600_000, (700, 900)), (300_000, (1 << 30, 1 << 30)), (40_000, (3, 100_000)), (5000, (70, 2))):
        places = numpy.stack([rng.integers(0, s, n) for s in sizes])
        values = rng.integers(-9, 9, n).astype(float)
        keys = places[0].astype(object) * sizes[1] + places[1] if sizes[0] > 1000 else places[0] * sizes[1] + places[1]
        distinct, inverse = numpy.unique(keys.astype(numpy.int64), return_inverse=True)
        t = tessera.sparse_coo_tensor(tessera.from_numpy(places), tessera.from_numpy(values), sizes).coalesce()
        got = (t.indices()[0] * sizes[1] + t.indices()[1]).numpy()
        assert (got == distinct).all()
        assert (t.values().numpy() == numpy.bincount(inverse, values)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_duplicates_are_added_in_every_dtype(dtype):
    dtype = getattr(tessera, dtype)
    t = tessera.sparse_coo_tensor([[1, 1, 0]], tessera.tensor([1, 1, 1]).to(dtype), (3,)).coalesce()
    assert t.dtype is dtype and t.indices().tolist() == [[0, 1]]
    assert t.values().tolist() == [1, True if dtype is tessera.bool else 2]


def test_batches_blocks_and_dense_dimensions_go_together():
    x = tessera.zeros(3, 4, 6, 2)
    x[:, 1, 3] = tessera.tensor([1.0, 2.0])
    x[:, 2, 0] = tessera.tensor([0.0, 3.0])
    for name, layout in KEYS.items():
        if name == "coo":
            continue
        extra = {"blocksize": (2, 3)} if name in ("bsr", "bsc") else {}
        t = x.to_sparse(layout=layout, dense_dim=1, **extra)
        assert t.dense_dim() == 1 and t.sparse_dim() == 2 and tessera.equal(t.to_dense(), x)
        assert tessera.equal(t.transpose(1, 2).to_dense(), x.transpose(1, 2))
        check(t)


def test_batches_with_other_numbers_of_elements_are_refused():
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        tessera.tensor([[[1.0, 0], [0, 0]], [[1, 1], [0, 0]]]).to_sparse_csr()


@pytest.mark.parametrize(
    ("indices", "values", "size", "match"),
    [
        ([[0, 5]], [1.0, 2.0], (3,), "size is inconsistent with indices"),
        ([[0, -1]], [1.0, 2.0], (3,), "negative index"),
        ([[0, 1]], [1.0], (3,), "same nnz"),
        ([0, 1], [1.0, 2.0], (3,), "sparse_dim x nnz"),
        ([[0], [1]], [1.0], (3,), "number of dimensions must be"),
    ],
)
def test_wrong_members_of_coo(indices, values, size, match):
    with pytest.raises(RuntimeError, match=match):
        tessera.sparse_coo_tensor(indices, values, size, check_invariants=True)


def test_invariants_are_looked_at_where_they_are_asked_for():
    make = lambda **k: tessera.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2), **k)
    check = tessera.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled() and make().shape == (2, 2)
    with pytest.raises(RuntimeError, match="is not satisfied"):
        make(check_invariants=True)
    with check():
        with pytest.raises(RuntimeError, match="is not satisfied"):
            make()
        assert make(check_invariants=False).shape == (2, 2) and check.is_enabled()
    assert not check.is_enabled()

    @check(True)
    def inside():
        return check.is_enabled()

    assert inside() and not check.is_enabled()


def test_factories_make_sparse_tensors_without_elements():
    for layout in (tessera.sparse_coo, tessera.sparse_csr, tessera.sparse_csc):
        t = tessera.zeros(2, 3, layout=layout)
        assert t.layout == layout and t._nnz() == 0 and t.to_dense().tolist() == [[0] * 3] * 2
        assert tessera.empty(2, 3, layout=layout).layout == layout
        assert tessera.zeros_like(tessera.ones(2, 3), layout=layout)._nnz() == 0
    with pytest.raises(RuntimeError):
        tessera.zeros(2, 2, layout=tessera.sparse_bsr)


def test_sparse_tensors_have_no_strided_memory():
    s, c = tessera.ones(2, 2).to_sparse(), tessera.ones(2, 2).to_sparse_csr()
    for call in (s.data_ptr, s.untyped_storage, c.stride, c.is_contiguous, lambda: s.view(4), lambda: c.reshape(4)):
        with pytest.raises(RuntimeError):
            call()
    for t in (s, c):
        with pytest.raises(TypeError, match="to_dense"):
            t.numpy()
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::exp' with arguments from the 'Sparse"):
            tessera.exp(t)


def test_a_size_is_enough_and_one_element_is_a_truth():
    empty = tessera.sparse_coo_tensor(size=(2, 3))
    assert empty.is_coalesced() and empty.shape == (2, 3) and empty.to_dense().count_nonzero() == 0
    with pytest.raises(TypeError):
        tessera.sparse_coo_tensor()
    one = tessera.tensor([3.0]).to_sparse()
    assert one and not tessera.tensor([0.0]).to_sparse() and float(one) == 3.0 == int(one)
    for layout in ("coo", "csr"):
        with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
            tessera.eye(2).to_sparse(layout=KEYS[layout])[0] = 1.0
