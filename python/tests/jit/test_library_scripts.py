"""TorchScript as other people's libraries write it."""

import sys

import pytest
import tessera as t
from tessera import jit, nn


@jit._overload
def pick(x, n):
    # type: (Tensor, int) -> Tensor
    pass


@jit._overload
def pick(x, n):  # noqa: F811
    # type: (Tensor, str) -> Tensor
    pass


def pick(x, n):  # noqa: F811
    if isinstance(n, str):
        return x.neg()
    return x + n


def parts(x):
    return x[slice(None, -1, None)], x.shape[slice(1)], x[slice(0, 3, 2)]


def test_slice_is_a_subscript():
    x = t.arange(12.0).view(4, 3)
    for got, want in zip(jit.script(parts)(x), (x[:-1], [4], x[0:3:2])):
        assert got == want if isinstance(want, list) else t.equal(got, want)


def test_overloads_take_types_from_comments():
    def both(x):
        return pick(x, 2), pick(x, "n")

    a, b = jit.script(both)(t.ones(2))
    assert a.tolist() == [3.0, 3.0] and b.tolist() == [-1.0, -1.0]


def test_known_right_side_decides_and_legacy_classes_are_tensors():
    def first(x: t.LongTensor, flag: bool):
        if flag or not t.compiler.is_compiling():
            return x + 1
        return nowhere.ops(x)  # noqa: F821

    assert jit.script(first)(t.tensor([1]), False).tolist() == [2]


def test_segment_reduce_in_scripts():
    def means(x, n):
        return t.segment_reduce(x, "mean", lengths=n, initial=0)

    x, n = t.arange(5.0), t.tensor([2, 0, 3])
    assert t.equal(jit.script(means)(x, n), means(x, n)) and means(x, n).tolist() == [0.5, 0.0, 3.0]


def test_traced_values_know_their_sizes():
    graph, _ = jit._get_trace_graph(t.nn.Linear(3, 2), (t.ones(4, 3),))
    (linear,) = [n for n in graph.nodes() if n.kind() == "aten::linear"]
    assert [v.type().sizes() for v in linear.inputs()] == [[4, 3], [2, 3], [2]]
    assert linear.output().type().sizes() == [4, 2] and linear.output().type().dtype() is t.float32


def test_new_of_sparse_tensors_and_sizes_of_storages():
    g = t.eye(2).to_sparse()
    assert t.equal(g.new(g._indices(), g._values() * 2, g.size()).to_dense(), 2 * t.eye(2))
    assert g.new().is_sparse and g.double().new(2, 3).dtype is t.float64
    assert sys.getsizeof(t.ones(6).untyped_storage()) == 80


class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])


class EverySecond(Cut):
    def forward(self, x):
        for part in self.parts[-3:9:2]:
            x = part(x)
        return x


class Backwards(Cut):
    def forward(self, x):
        for part in self.parts[::-1]:
            x = part(x)
        return x


def test_slices_of_modules():
    module, x = EverySecond(), t.tensor([-1.0, 2.0])
    assert t.equal(jit.script(module)(x), module(x))
    with pytest.raises(RuntimeError, match="the step of a slice of modules must be positive, it is -1"):
        jit.script(Backwards())


def pools(x):
    f = nn.functional
    return f.max_pool1d(x, 2), f.max_pool1d(x, 2, return_indices=True), f.adaptive_max_pool1d(x, 1, return_indices=True)


def distinct(x):
    return (
        t.unique(x),
        t.unique(x, return_inverse=True),
        t.unique(x, return_counts=True),
        t.unique(x, True, True, True),
        t.unique(x, dim=0),
        t.unique_consecutive(x),
        t.unique_consecutive(x, return_counts=True),
    )


def joined(x):
    return (
        t.tensordot(x, x, dims=([1], [1])),
        t.tensordot(x, x.t(), 1),
        t.combinations(x[0]),
        t.combinations(x[0], 3, True),
        t.tensor_split(x, 3, 1),
        t.hsplit(x, 3),
        t.norm(x, p="fro"),
        x.where(x > 2, x * 0),
    )


def grids(x):
    f = nn.functional
    theta = t.tensor([[[0.5, 0.0, 0.25], [0.0, 1.0, 0.0]]])
    grid = f.affine_grid(theta, [1, 1, 2, 3], align_corners=False)
    return grid, f.affine_grid(theta, [1, 1, 1, 3], align_corners=True), f.grid_sample(x, grid, align_corners=False)


def flat(value):
    return [value] if isinstance(value, t.Tensor) else [x for v in value for x in flat(v)]


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (pools, t.arange(6.0).view(1, 2, 3)),
        (distinct, t.tensor([[1.0, 1.0], [2.0, 1.0]])),
        (joined, t.arange(6.0).view(2, 3)),
        (grids, t.arange(6.0).view(1, 1, 2, 3)),
    ],
    ids=["pools", "distinct", "joined", "grids"],
)
def test_functions_of_several_forms_are_those_of_python(fn, x):
    got, want = jit.script(fn)(x), fn(x)
    assert [type(v) is list or type(v) is tuple for v in got] == [not isinstance(v, t.Tensor) for v in want]
    for a, b in zip(flat(got), flat(want), strict=True):
        t.testing.assert_close(a, b)


def test_tuples_add_to_tuples():
    def both(a: int):
        return (a, "x") + (1.5,), len((a,) + (a, a))

    assert jit.script(both)(2) == ((2, "x", 1.5), 3)


def test_dtypes_and_devices_of_tensors():
    def kinds(x):
        return x.type(t.float64), t.result_type(x, 1.5) == t.float32, t.promote_types(t.int8, t.float16) == t.float16

    x, same, other = jit.script(kinds)(t.ones(2))
    assert x.dtype == t.float64 and same and other

    def nowhere(x):
        return x.is_xpu or x.is_mps or x.is_mtia

    assert jit.script(nowhere)(t.ones(1)) is False


def test_programs_compute_gradients():
    def slope(x):
        return t.autograd.grad([(x * x).sum()], [x])

    def step(x):
        y = (x * x).sum()
        y.backward()
        return y

    x = t.tensor([1.0, 3.0], requires_grad=True)
    (g,) = jit.script(slope)(x)
    assert g.tolist() == [2.0, 6.0] and x.grad is None
    assert jit.script(step)(x).item() == 10.0 and x.grad.tolist() == [2.0, 6.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        jit.script(slope)(t.ones(2))


def test_fractions_are_no_ints_by_themselves():
    def largest(x):
        return max(x[0], x[1])

    with pytest.raises(RuntimeError, match="as an integral argument"):
        jit.script(largest)(t.tensor([0.5, 1.5]))
