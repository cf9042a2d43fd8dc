"""Sparse tensors without data: on the meta device, fake ones, and programs that take them."""

import copy
import io

import pytest
import tessera
from tessera._subclasses.fake_tensor import FakeTensor, FakeTensorMode

DATA = tessera.tensor([[1.0, 0, 0, 2], [0, 0, 3, 0], [0, 4, 0, 0], [5, 0, 0, 6]])
OTHER = tessera.arange(8.0).reshape(4, 2)
LAYOUTS = [tessera.sparse_coo, tessera.sparse_csr, tessera.sparse_csc, tessera.sparse_bsr, tessera.sparse_bsc]


def in_layout(layout, data=DATA):
    blocked = layout in (tessera.sparse_bsr, tessera.sparse_bsc)
    return data.to_sparse(layout=layout, blocksize=(2, 2) if blocked else None)


def facts(t):
    return t.layout, t.shape, t.dtype


OPERATORS = {
    "product": lambda x: x @ OTHER.to(x.device),
    "from the left": lambda x: OTHER.t().to(x.device) @ x,
    "vector": lambda x: x @ OTHER[:, 0].to(x.device),
    "both sparse": lambda x: x @ x,
    "dense": lambda x: x.to_dense(),
    "sine": lambda x: x.sin(),
    "sum": lambda x: x + x,
    "other pattern": lambda x: x + x.sin().clone(),
    "products": lambda x: x * x,
    "times dense": lambda x: x * DATA.to(x.device),
    "onto dense": lambda x: DATA.to(x.device) + x,
    "turned": lambda x: x.transpose(0, 1),
    "values": lambda x: x._values() if x.layout is tessera.sparse_coo else x.values(),
    "total": lambda x: x.sum(),
    "double": lambda x: x.double(),
    "written": lambda x: x.clone().mul_(2),
    "zero": lambda x: x.clone().zero_(),
    "masks": lambda x: DATA.to(x.device).sparse_mask(x),
    "to coo": lambda x: x.to_sparse(),
    "to csr": lambda x: x.to_sparse_csr() if x.layout is not tessera.sparse_coo else x.coalesce().to_sparse_csr(),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_know_their_result_without_data(layout, name):
    x, run = in_layout(layout), OPERATORS[name]
    wanted = run(x)
    assert facts(run(x.to("meta"))) == facts(wanted)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    twin = mode.from_tensor(x)
    with mode:
        found = run(twin)
    assert type(found) is FakeTensor and facts(found) == facts(wanted) and found.device == wanted.device


def test_sums_along_dimensions_without_data():
    x = DATA.to_sparse()
    for dims, keepdim in ((0, False), (1, True), ([0, 1], False)):
        assert facts(x.to("meta").sum(dims, keepdim=keepdim)) == facts(x.sum(dims, keepdim=keepdim))
    assert facts(tessera.sparse.softmax(x.to("meta"), 1)) == facts(x)


def test_shapes_that_do_not_fit_are_refused_without_data():
    x = DATA.to_sparse_csr().to("meta")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        x @ OTHER.t().to("meta")
    with pytest.raises(RuntimeError, match="sampled_addmm"):
        tessera.sparse.sampled_addmm(x, OTHER.to("meta"), OTHER.to("meta"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fake_twin_has_what_the_tensor_has(layout):
    x = in_layout(layout).requires_grad_()
    mode = FakeTensorMode()
    twin = mode.from_tensor(x)
    assert mode.from_tensor(x) is twin and twin.requires_grad and facts(twin) == facts(x)
    assert twin._nnz() == x._nnz() and twin.sparse_dim() == 2 and twin.device.type == "cpu"
    assert facts(copy.deepcopy(twin)) == facts(x)
    with mode:
        twin.to_dense().sum().backward()
    assert type(twin.grad) is FakeTensor and twin.grad.shape == x.shape


def test_gradients_of_fake_tensors():
    mode = FakeTensorMode()
    x, y = (mode.from_tensor(in_layout(layout)).requires_grad_() for layout in LAYOUTS[:2])
    with mode:
        tessera.sparse.sum(x * 2).backward()
        assert x.grad.layout is tessera.sparse_coo
        tessera.sparse.mm(y, mode.from_tensor(OTHER)).sum().backward()
        assert y.grad.shape == DATA.shape
        values = tessera.ones(2, requires_grad=True)
        made = tessera.sparse_coo_tensor(tessera.zeros(2, 2, dtype=tessera.int64), values, (3, 3))
        made.to_dense().sum().backward()
        assert type(made) is FakeTensor and made.layout is tessera.sparse_coo and values.grad.shape == (2,)


class Model(tessera.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = tessera.nn.Linear(2, 3)
        self.register_buffer("edges", DATA.t().to_sparse())

    def forward(self, adjacency, features):
        return tessera.sparse.mm(adjacency, self.linear(features)).relu() + self.edges @ self.linear(features)


@pytest.mark.parametrize("layout", [tessera.sparse_coo, tessera.sparse_csr])
def test_programs_take_sparse_tensors(layout):
    model, x = Model(), in_layout(layout)
    wanted = model(x, OTHER)
    program = tessera.export.export(model, (x, OTHER))
    assert program.module()(x, OTHER).equal(wanted)
    assert program.run_decompositions().module()(x, OTHER).allclose(wanted)
    file = io.BytesIO()
    tessera.export.save(program, file)
    file.seek(0)
    assert tessera.export.load(file).module()(x, OTHER).equal(wanted)


def test_compiled_functions_leave_sparse_tensors_to_python():
    def entries(x):
        return x.to_sparse().values() * 2

    assert tessera.compile(entries, backend="eager")(DATA).tolist() == [2, 4, 6, 8, 10, 12]
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="sparse_coo comes into the graph"):
        tessera.compile(entries, backend="eager", fullgraph=True)(DATA)
