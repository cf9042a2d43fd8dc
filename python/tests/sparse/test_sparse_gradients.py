"""Gradients through sparse tensors against finite differences, and their layouts."""

import pytest
import tessera
from tessera.autograd import gradcheck

DENSE = tessera.tensor([[0.0, 2.0, 0.5], [-1.0, 0.0, 0.0], [0.0, 0.7, 1.5], [0.0, 0.0, 0.0]], dtype=tessera.float64)
LAYOUTS = {
    "coo": {"layout": tessera.sparse_coo},
    "csr": {"layout": tessera.sparse_csr},
    "csc": {"layout": tessera.sparse_csc},
    "bsr": {"layout": tessera.sparse_bsr, "blocksize": (2, 1)},
    "bsc": {"layout": tessera.sparse_bsc, "blocksize": (2, 1)},
}


def dense_argument(*sizes):
    g = tessera.Generator().manual_seed(sum(sizes))
    return tessera.randn(*sizes, dtype=tessera.float64, generator=g).requires_grad_()


def strided(r):
    return r if r.layout == tessera.strided else r.to_dense()


COO = {
    "to_dense": lambda t: t.to_dense(),
    "csr": lambda t: t.to_sparse_csr(),
    "coalesce": lambda t: t.coalesce(),
    "relu": lambda t: t.relu(),
    "abs": lambda t: t.abs(),
    "neg": lambda t: -t,
    "mul": lambda t: t * 3,
    "times": lambda t: t * t,
    "add": lambda t: t + t,
    "t": lambda t: t.t(),
    "select": lambda t: t.to_sparse_coo().values() * 2,
    "sum": lambda t: tessera.sparse.sum(t),
    "sum0": lambda t: tessera.sparse.sum(t, 0),
    "sum1": lambda t: tessera.sparse.sum(t, 1),
    "softmax": lambda t: tessera.sparse.softmax(t, 1),
    "log_softmax": lambda t: tessera.sparse.log_softmax(t, 0),
    "mask": lambda t: t.sparse_mask(DENSE.to_sparse()),
}


def by_values(make, names=LAYOUTS):
    """gradcheck of `make(t)` for the values of t, in every layout of `names`."""
    for name in names:
        t = DENSE.to_sparse(**LAYOUTS[name])
        rows = name in ("csr", "bsr")
        values = t.values().clone().requires_grad_()
        if name == "coo":
            of = lambda v: tessera.sparse_coo_tensor(t.indices(), v, t.shape, is_coalesced=True)
        else:
            members = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
            of = lambda v: tessera.sparse_compressed_tensor(*members, v, t.shape, layout=t.layout)
        assert gradcheck(lambda v: strided(make(of(v))), (values,)), name


@pytest.mark.parametrize("name", COO)
def test_gradients_of_values_of_coo(name):
    by_values(COO[name], ["coo"])


@pytest.mark.parametrize("name", ["to_dense", "neg", "mul", "times"])
def test_gradients_of_values_of_every_layout(name):
    by_values(COO[name])


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_gradients_of_products(layout):
    b, c = dense_argument(3, 2), dense_argument(4, 2)
    by_values(lambda t: tessera.sparse.mm(t, b.detach()), [layout])
    by_values(lambda t: tessera.sparse.addmm(c.detach(), t, b.detach(), beta=0.5, alpha=2.0), [layout])
    t = DENSE.to_sparse(**LAYOUTS[layout])
    assert gradcheck(lambda b, c: tessera.sparse.addmm(c, t, b, beta=0.5, alpha=2.0), (b, c))
    assert gradcheck(lambda b: t @ b, (b,))
    assert gradcheck(lambda v: tessera.mv(t, v), (dense_argument(3),))


def test_gradients_of_products_of_two_sparse_matrices():
    other = DENSE.t().to_sparse()
    by_values(lambda t: tessera.sparse.mm(t, other), ["coo"])
    by_values(lambda t: tessera.sparse.mm(other, t), ["coo"])


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_gradients_of_products_with_other_reductions(reduce):
    b = dense_argument(3, 2)
    by_values(lambda t: tessera.sparse.mm(t, b.detach(), reduce), ["csr"])
    assert gradcheck(lambda b: tessera.sparse.mm(DENSE.to_sparse_csr(), b, reduce), (b,))


def test_gradients_of_sampled_products():
    a, b, t = dense_argument(4, 2), dense_argument(2, 3), DENSE.to_sparse_csr()
    by_values(lambda t: tessera.sparse.sampled_addmm(t, a.detach(), b.detach(), beta=0.5), ["csr"])
    assert gradcheck(lambda a, b: tessera.sparse.sampled_addmm(t, a, b, alpha=2.0).to_dense(), (a, b))


def test_the_gradient_of_a_sparse_factor_has_its_elements():
    t = DENSE.to_sparse().requires_grad_()
    tessera.sparse.mm(t, tessera.ones(3, 2, dtype=tessera.float64)).sum().backward()
    assert t.grad.is_sparse and t.grad._indices().equal(t.indices()) and set(t.grad._values().tolist()) == {2.0}
    c = DENSE.to_sparse_csr().requires_grad_()
    tessera.sparse.mm(c, tessera.ones(3, 2, dtype=tessera.float64)).sum().backward()
    assert c.grad.layout == tessera.sparse_csr and c.grad.col_indices().equal(c.col_indices())


def test_masked_gradients():
    for masked, want in ((True, 2.0 * (DENSE != 0)), (None, 2.0 * (DENSE != 0)), (False, 2.0 * tessera.ones(4, 3))):
        x = DENSE.clone().requires_grad_()
        (x.to_sparse().to_dense(masked_grad=masked) * 2).sum().backward()
        assert x.grad.equal(want.double()), masked


def test_gradients_of_masks_and_diagonals():
    mask = DENSE.to_sparse()
    assert gradcheck(lambda x: x.sparse_mask(mask).to_dense(), (dense_argument(4, 3),))
    offsets = tessera.tensor([0, -1, 1])
    assert gradcheck(lambda d: tessera.sparse.spdiags(d, offsets, (3, 4)).to_dense(), (dense_argument(3, 4),))
    x = dense_argument(4, 3)
    (x * DENSE.to_sparse()).to_dense().sum().backward()
    assert strided(x.grad).equal(DENSE)


def test_gradcheck_of_sparse_arguments():
    check = tessera.sparse.as_sparse_gradcheck(gradcheck)
    for name, kind in LAYOUTS.items():
        t = DENSE.to_sparse(**kind).requires_grad_()
        assert check(lambda v: v.to_dense(), t, masked=True), name
        if name in ("coo", "csr"):
            assert check(lambda v: v.to_sparse_csr(), t) and check(lambda v: v * 2, (t,))


# The operators of the table sparse/sparse.textproto that have a derivative, and the tests above that go through it.
CHECKED = {
    "_sparse_coo_of": "all of COO",
    "_sparse_compressed_of": "all of compressed layouts",
    "values": "select",
    "_to_sparse_layout": "csr",
    "_to_dense": "to_dense",
    "_coalesce": "coalesce",
    "sparse_mask": "mask",
    "_sparse_mm_reduce_impl": "test_gradients_of_products_with_other_reductions",
    "_sparse_sparse_matmul": "test_gradients_of_products_of_two_sparse_matrices",
    "_sparse_addmm": "test_gradients_of_products",
    "sparse_sampled_addmm": "test_gradients_of_sampled_products",
    "_sparse_sum": "sum0",
    "_sparse_softmax": "softmax",
    "_sparse_log_softmax": "log_softmax",
}


def test_every_derivative_of_the_table_is_checked_here():
    table = [row for row in tessera._C._operator_table() if row[4].startswith("sparse/")]
    own = {row[0].split("(")[0].split("::")[1].split(".")[0] for row in table if row[5] not in ("", "*")}
    assert own == set(CHECKED)


def test_gradients_of_all_elements_of_compressed_tensors():
    x = tessera.tensor([[0.0, 2], [3, 0]])
    for layout, blocks in (("csr", ()), ("csc", ()), ("bsr", ((1, 2),))):
        t = getattr(x, f"to_sparse_{layout}")(*blocks).requires_grad_()
        weight = tessera.tensor([[1.0, 2], [3, 4]])
        (t.to_dense(masked_grad=False) * weight).sum().backward()
        assert t.grad.layout == t.layout and t.grad.to_dense().equal(weight)


def test_gradcheck_takes_sparse_inputs():
    x = tessera.tensor([[0.0, 2], [3, 0]], dtype=tessera.float64)
    for t in (x.to_sparse(), x.to_sparse_csr()):
        assert tessera.autograd.gradcheck(lambda s: s.to_dense(), (t.requires_grad_(),), masked=True)
        assert tessera.autograd.gradcheck(lambda s: s.to_dense(masked_grad=False), (t,))
    with pytest.raises(RuntimeError, match="[Jj]acobian"):
        tessera.autograd.gradcheck(lambda s: s.to_dense() * s.to_dense().detach(), (x.to_sparse().requires_grad_(),))
