"""What operators of sparse tensors do at the edges: numbers among them, writes to uncoalesced ones, refusals."""

import pytest

import tessera

DATA = tessera.tensor([[1.0, 0, 2], [0, 0, 3]])


def twice():
    """One element, stored in two parts."""
    return tessera.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 3))


def test_a_sparse_number_multiplies_everything():
    x, number = DATA.to_sparse(), tessera.tensor(2.0).to_sparse()
    assert (x * number).to_dense().equal(2 * DATA) and (number * x).to_dense().equal(2 * DATA)


@pytest.mark.parametrize("turn", [lambda x: x.t_(), lambda x: x.transpose_(0, 1)])
def test_transposed_in_place(turn):
    x = DATA.to_sparse()
    turn(x)
    assert x.shape == (3, 2) and x.to_dense().equal(DATA.t())


def test_one_value_may_be_a_number():
    x = tessera.sparse_coo_tensor([[0], [2]], 1.5, (2, 3))
    assert x.values().tolist() == [1.5] if x.is_coalesced() else x._values().tolist() == [1.5]
    assert tessera.sparse_coo_tensor(([1], [2]), 1.5).shape == (2, 3)


def test_nothing_can_be_added_whatever_its_sparse_dimensions():
    hybrid = tessera.sparse_coo_tensor([[0, 1]], tessera.ones(2, 3), (2, 3))
    nothing = tessera.sparse_coo_tensor((2, 3))
    for total in (hybrid + nothing, nothing + hybrid):
        assert total.sparse_dim() == 1 and total.to_dense().equal(tessera.ones(2, 3))
    with pytest.raises(RuntimeError, match="same density"):
        hybrid + DATA.to_sparse()


def test_division_in_place_adds_the_parts_first_where_it_rounds():
    assert twice().div_(2).to_dense()[0, 1] == 1.5
    assert twice().div_(2, rounding_mode="floor").to_dense()[0, 1] == 1
    assert twice().floor_divide_(2).to_dense()[0, 1] == 1
    with pytest.raises(RuntimeError, match="asin_ requires coalesced input"):
        twice().asin_()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: x.narrow_copy(10, 0, 1), "out of range"),
        (lambda x: x.narrow_copy(-1, 0, 1), "out of range"),
        (lambda x: x.norm(keepdim=True), "keepdim"),
        (lambda x: x.norm(p=1, dtype=tessera.float64), "dtype"),
    ],
)
def test_refused_with_a_runtime_error(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(DATA.to_sparse())


def test_zeros_into_a_sparse_tensor():
    x = DATA.to_sparse()
    assert tessera.zeros((4, 5), out=x) is x
    assert x.shape == (4, 5) and x._nnz() == 0 and x.layout is tessera.sparse_coo


def test_masked_reductions_over_no_named_dimension_are_over_all():
    x = DATA + 1
    assert tessera.masked.prod(x, dim=()).shape == tessera.masked.amax(x, dim=()).shape == ()


def test_the_gradient_of_a_mask_stays_inside_of_it():
    x = tessera.arange(1.0, 10).reshape(3, 3).to_sparse().requires_grad_()
    mask = tessera.sparse_coo_tensor([[0, 2], [1, 2]], [1.0, 1.0], (3, 3)).coalesce()
    for masked in (True, False):
        (grad,) = tessera.autograd.grad(x.sparse_mask(mask).to_dense(masked_grad=masked), x, tessera.full((3, 3), 5.0))
        assert (grad.to_dense() if grad.is_sparse else grad).equal(5 * mask.to_dense())


def test_one_element_can_be_called_uncoalesced():
    x = tessera.sparse_coo_tensor([[0], [1]], [3.0], (2, 3))
    assert x.is_coalesced() and not x._coalesced_(False).is_coalesced()
    with pytest.raises(RuntimeError, match="uncoalesced"):
        x.values()
    assert x.coalesce().is_coalesced()


def test_a_sparse_tensor_broadcasts_over_a_dense_one():
    dense = tessera.arange(24.0).reshape(4, 2, 3)
    for product in (DATA.to_sparse() * dense, dense * DATA.to_sparse()):
        assert product.is_sparse and product.to_dense().equal(DATA * dense)


def test_likes_of_compressed_tensors():
    x = tessera.tensor([[0, 1.0], [2, 0], [0, 3], [4, 5]])
    csr = x.to_sparse_csr()
    like = tessera.empty_like(csr)
    assert tessera.equal(like.col_indices(), csr.col_indices()) and like.values().shape == csr.values().shape
    hybrid = tessera.stack([x, x], -1)
    for layout, blocks in ((tessera.sparse_csr, None), (tessera.sparse_bsc, (2, 1))):
        t = hybrid.to_sparse(layout=layout, blocksize=blocks, dense_dim=1)
        coo = tessera.zeros_like(t, layout=tessera.sparse_coo)
        assert (coo.sparse_dim(), coo.dense_dim(), coo._nnz()) == (2, 1, 0)
    for make in (tessera.empty_like, tessera.zeros_like):
        with pytest.raises(RuntimeError, match="strided"):
            make(x.to_sparse(), memory_format=tessera.contiguous_format)


def test_numbers_that_are_sparse_scale():
    many = tessera.sparse_coo_tensor(tessera.zeros(0, 3, dtype=tessera.int64), tessera.tensor([1.0, 2, 3]), ())
    two = tessera.tensor(2.0).to_sparse()
    assert (many * two)._nnz() == (two * many)._nnz() == 3
    assert (many * two).to_dense() == 12


def test_the_gradient_of_log1p_is_sparse():
    x = tessera.tensor([[0, 1.0], [3, 0]]).to_sparse().requires_grad_()
    x.log1p().backward(tessera.tensor([[0, 1.0], [1, 0]]).to_sparse())
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == [[0, 0.5], [0.25, 0]]


def test_new_sparse_tensors_of_every_dtype():
    for dtype in (tessera.bool, tessera.complex64, tessera.float16, tessera.int8):
        t = tessera.zeros(2, 2, dtype=dtype).to_sparse()
        assert (t.new().dtype, t.new(2, 3).shape) == (dtype, (2, 3))
        assert t.new(tessera.Size([2, 3])).layout is tessera.sparse_coo
    with pytest.raises(TypeError, match="sizes"):
        t.new([6])


def test_resized_values_stay_in_the_order_of_memory():
    t = tessera.sparse_coo_tensor([[1]], tessera.arange(6.0).view(1, 2, 3), (2, 2, 3))
    t.sparse_resize_((2, 2, 4), 1, 2)
    assert t.to_dense()[1].tolist() == [[0, 1, 2, 3], [4, 5, 0, 0]]


def test_extremes_of_nothing_in_a_sparse_layout():
    mask = tessera.zeros(0, 2, dtype=tessera.bool).to_sparse()
    x = tessera.zeros(0, 2).to_sparse()
    whole = tessera.masked.amax(x, (0, 1), mask=mask, keepdim=True)
    assert whole._nnz() == 1 and whole.to_dense().tolist() == [[-tessera.inf]]
    assert tessera.masked.amin(x, 0, mask=mask)._nnz() == 0
    assert tessera.masked.amin(tessera.tensor(3.0).to_sparse(), 0).to_dense() == 3
    assert tessera.masked.prod(x, (0, 1), mask=mask, keepdim=True).to_dense().tolist() == [[1]]


def test_resized_compressed_matrices():
    x = tessera.tensor([[1.0, 2, 3], [4, 0, 6]])
    more, fewer = x.to_sparse_csr(), x.to_sparse_csr()
    more.resize_((4, 5))
    assert more._nnz() == 5 and more.to_dense()[:2, :3].equal(x) and more.shape == (4, 5)
    fewer.resize_((1, 4))
    assert fewer.values().tolist() == [1, 2, 3] and fewer.to_dense().tolist() == [[1, 2, 3, 0]]
    for size, what in (((4,), "batched"), ((2, 2), "columns")):
        with pytest.raises(RuntimeError, match=what):
            x.to_sparse_csr().resize_(size)
    with pytest.raises(RuntimeError, match="equally many"):
        tessera.stack([x, x.flip(0)]).to_sparse_csr().resize_((2, 1, 3))


def test_one_pattern_samples_the_products_of_a_batch():
    pattern = tessera.tensor([[0, 1.0], [2, 0]]).to_sparse_csr()
    a, b = tessera.randn(3, 2, 4), tessera.randn(3, 4, 2)
    found = tessera.sparse.sampled_addmm(pattern, a, b, beta=0.5)
    want = (a @ b) * tessera.tensor([[0, 1.0], [1, 0]]) + 0.5 * pattern.to_dense()
    tessera.testing.assert_close(found.to_dense(), want)
    many = tessera.stack([pattern.to_dense()] * 2).to_sparse_csr()
    with pytest.raises(RuntimeError, match="do not give"):
        tessera.sparse.sampled_addmm(many, a, b)


@pytest.mark.parametrize("layout", [tessera.sparse_coo, tessera.sparse_csr, tessera.sparse_bsc])
def test_the_parts_of_complex_elements(layout):
    dense = tessera.complex(DATA, DATA - 1) * (DATA != 0)
    x = dense.to_sparse(layout=layout, blocksize=(2, 1) if layout is tessera.sparse_bsc else None)
    parts = tessera.view_as_real(x)
    assert parts.layout is layout and parts.dense_dim() == 1
    assert parts.to_dense().equal(tessera.view_as_real(dense))
    assert tessera.view_as_complex(parts).to_dense().equal(dense)
    with pytest.raises(RuntimeError, match="dense_dim > 0"):
        tessera.view_as_complex(DATA[0, :2].to_sparse())


def test_gradients_of_the_parts_of_complex_elements():
    x = tessera.sparse_coo_tensor([[0, 2]], [1 + 2j, 3 - 1j], (3,)).requires_grad_()
    assert x.real.to_dense().tolist() == [1, 0, 3] and x.imag.to_dense().tolist() == [2, 0, -1]
    for part, factor in ((x.real, 2), (x.imag, 2j)):
        (grad,) = tessera.autograd.grad(tessera.sparse.sum(part * 2), x)
        assert grad.to_dense().tolist() == [factor, 0, factor]
    real = DATA.to_sparse().requires_grad_()
    (grad,) = tessera.autograd.grad(tessera.sparse.sum(real.to(tessera.complex64)).real, real)
    assert grad.to_dense().equal((DATA != 0).float())


@pytest.mark.parametrize("layout", [tessera.sparse_coo, tessera.sparse_csr])
def test_a_sparse_matrix_times_a_batch_and_its_gradient(layout):
    x, batch = DATA.to_sparse(layout=layout), tessera.arange(24.0).reshape(2, 2, 3, 2).requires_grad_()
    assert tessera.matmul(x, batch).equal(DATA @ batch)
    x.requires_grad_()
    weight = tessera.arange(16.0).reshape(2, 2, 2, 2)
    (x @ batch * weight).sum().backward()
    dense, other = DATA.clone().requires_grad_(), batch.detach().clone().requires_grad_()
    (dense @ other * weight).sum().backward()
    assert x.grad.equal(dense.grad) and batch.grad.equal(other.grad)


def test_the_gradient_of_a_batch_reaches_elements_that_are_zero():
    x = tessera.eye(2).expand(2, 2, 2).contiguous().to_sparse_csr().requires_grad_()
    weight = tessera.tensor([[[1.0, 2], [0, 0]], [[0, 3], [0, 4]]])
    (x.to_dense(masked_grad=False) * weight).sum().backward()
    assert x.grad.layout is tessera.sparse_csr and x.grad.to_dense().equal(weight)


def test_the_gradient_of_a_sum_counts_an_element_once():
    x = twice().requires_grad_()
    tessera.sparse.sum(tessera.sparse.sum(x, 0)).backward()
    assert x.grad.to_dense()[0, 1] == 1


def test_copies_keep_the_dtype_of_indices():
    wide = DATA.to_sparse_csr()
    narrow = tessera.sparse_csr_tensor(wide.crow_indices().int(), wide.col_indices().int(), wide.values() * 0, (2, 3))
    narrow.copy_(wide)
    assert narrow.col_indices().dtype is tessera.int32 and narrow.to_dense().equal(DATA)
