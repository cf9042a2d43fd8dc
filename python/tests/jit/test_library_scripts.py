"""TorchScript as other people's libraries write it."""

import sys
from typing import Any, List, NamedTuple, Tuple, Union
from typing import List as Many
from typing import Optional as Maybe
from typing import Tuple as Several

import pytest
import tessera as t
from tessera import fx, jit, nn


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
    module = Backwards()
    assert t.equal(jit.script(module)(x), module(x))


class Scopes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.up(self.conv(x)) + t.nn.functional.group_norm(t.ones(1, 2, 1, 1), 1, CONSTANT)


CONSTANT = t.ones(2)


def test_traced_graph_has_parameters_as_inputs_one_convolution_and_scopes():
    module, state = Scopes(), lambda: t._C._get_tracing_state()
    assert state() is None

    def enter(name):
        return lambda *_: state() and state().push_scope(name)

    for name, part in module.named_modules():
        part.register_forward_pre_hook(enter(name))
        part.register_forward_hook(lambda *_: state() and state().pop_scope())
    x = t.ones(1, 3, 4, 4)
    graph, result = jit._get_trace_graph(module, (x,))
    assert [v.type().sizes() for v in graph.inputs()] == [[1, 3, 4, 4], *(list(v.shape) for v in module.parameters())]
    assert not graph.findAllNodes("prim::GetAttr") and t.equal(result, module(x))
    conv, up = graph.findAllNodes("aten::_convolution")
    assert [n.scopeName() for n in (conv, up)] == ["/conv", "/up"]
    assert [n.inputsAt(6).toIValue() for n in (conv, up)] == [False, True]
    stride, padding, dilation, more = ([v.toIValue() for v in conv.inputsAt(i).node().inputs()] for i in (3, 4, 5, 7))
    assert (stride, padding, dilation, more) == ([1, 1], [1, 1], [1, 1], [0, 0])
    assert [v.toIValue() for v in up.inputsAt(3).node().inputs()] == [2, 2]
    (norm,) = graph.findAllNodes("aten::group_norm")
    assert norm.scopeName() == "" and norm.inputsAt(2).type().sizes() == [2]
    with pytest.raises(RuntimeError, match="no scope is open"):
        jit.trace(lambda x: state().pop_scope() or x + 1, x)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = self.other

    def step(self, x):
        return x + 1

    def other(self, x, *rest):
        return x - 1

    def forward(self, x):
        return self.step(x)


def test_methods_of_the_class_are_compiled_where_an_object_has_another_bound():
    module = Own()
    assert module(t.zeros(1)).item() == -1 and jit.script(module)(t.zeros(1)).item() == 1


def test_constructors_and_indices_of_compressed_matrices_in_scripts():
    def matrix(rows, columns, x, n: int):
        begins = t._convert_indices_from_coo_to_csr(rows, n)
        return t.sparse_csr_tensor(begins, columns, x, [n, n]), t.sparse_csc_tensor(begins, columns, x)

    def places(begins, columns, turned: bool):
        return t._convert_indices_from_csr_to_coo(begins, columns, out_int32=True, transpose=turned)

    rows, columns, x = t.tensor([0, 0, 2]), t.tensor([1, 2, 0]), t.tensor([1.0, 2.0, 3.0])
    for made, expected in zip(jit.script(matrix)(rows, columns, x, 3), matrix(rows, columns, x, 3)):
        assert made.layout is expected.layout and t.equal(made.to_dense(), expected.to_dense())
    begins = t.tensor([0, 2, 2, 3])
    assert jit.script(places)(begins, columns, False).tolist() == [rows.tolist(), columns.tolist()]
    assert t.equal(jit.script(places)(begins, columns, True), places(begins, columns, True))


def test_branches_leave_different_members_of_a_parameter_that_is_a_union():
    def longer(x: Union[t.Tensor, List[t.Tensor]]) -> t.Tensor:
        if isinstance(x, t.Tensor):
            x = x + 1
        elif isinstance(x, List[t.Tensor]):
            x = x + x
        if isinstance(x, t.Tensor):
            return x
        else:
            return t.stack(x)

    script = jit.script(longer)
    assert script(t.ones(2)).tolist() == [2.0, 2.0] and script([t.ones(2)]).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_grids_in_scripts():
    F = nn.functional

    def warp(x, theta, mode: str, padding: str, corners: bool):
        grid = F.affine_grid(theta, list(x.shape), align_corners=corners)
        return grid, F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)

    def larger(x):
        return F.upsample(x, scale_factor=2.0), F.upsample_nearest(x, [5, 4]), F.upsample_bilinear(x, [5, 7])

    generator = t.Generator().manual_seed(0)
    script = jit.script(warp)
    for shape, padding in (((2, 3, 4, 5), "reflection"), ((2, 1, 3, 1, 4), "border")):
        n = len(shape) - 2
        x, theta = t.randn(shape, generator=generator), t.randn(shape[0], n, n + 1, generator=generator)
        for mode in ("bilinear", "nearest"):
            for corners in (False, True):
                args = x, theta, mode, padding, corners
                for a, b in zip(script(*args), warp(*args)):
                    assert t.equal(a, b)
    image = t.randn(1, 2, 3, 3, generator=generator)
    with pytest.warns(UserWarning, match="deprecated"):
        expected = larger(image)
    assert all(t.equal(a, b) for a, b in zip(jit.script(larger)(image), expected))
    with pytest.raises(Exception, match="has no mode 'cubic'"):
        script(x, theta, "cubic", "zeros", True)
    with pytest.raises(Exception, match="makes no grid"):
        script(x, theta[:1], "nearest", "zeros", True)


def test_types_in_messages_of_scripts():
    def check(x, n: int, names: List[str]):
        if n > 1:
            raise ValueError(f"no {type(x)}, {type(n)}, {type(names)}")
        return x

    script = jit.script(check)
    assert script(t.ones(1), 1, ["a"]).item() == 1
    with pytest.raises(Exception, match="no <class 'torch.Tensor'>, <class 'int'>, <class 'list'>"):
        script(t.ones(1), 2, ["a"])


class Renamed(nn.Module):
    def forward(self, x: t.Tensor, n: Maybe[int] = None) -> Several[t.Tensor, Many[int]]:
        return x * 2, [1 if n is None else n]


def test_generic_types_under_other_names():
    y, numbers = jit.script(Renamed())(t.ones(1))
    assert y.item() == 2 and numbers == [1]
    graph = fx.Graph()
    node = graph.call_function(t.relu, (graph.placeholder("x", t.Tensor),))
    graph.output((node, node), Tuple[t.Tensor, t.Tensor])
    assert [v.tolist() for v in jit.script(fx.GraphModule({}, graph))(t.ones(1))] == [[1.0], [1.0]]


def test_tuples_in_subscripts_and_dimensions_of_tensordot():
    def parts(x):
        return x[(Ellipsis, slice(None, 1, None))], x[(slice(1, None), 0)], x[Ellipsis, 1]

    def products(x, y):
        return (
            t.tensordot(x, y, dims=([1], [0])),
            t.tensordot(x, y, 1),
            t.tensordot(x, y, [[0], [1]], out=None),
            t.tensordot(x, y, 2),
            t.tensordot(x, y, 1, out=t.zeros(2, 2)),
        )

    x, y = t.arange(4.0).view(2, 2), t.arange(4.0).view(2, 2) + 1
    for function, args in ((parts, (x,)), (products, (x, y))):
        for made, expected in zip(jit.script(function)(*args), function(*args)):
            assert t.equal(made, expected)


class _Place(NamedTuple):
    at: int
    shape: tuple  # of what, scripts do not learn


class _Places(t.nn.Module):
    places: List[Any]

    def __init__(self):
        super().__init__()
        self.places = [_Place(1, (2,)), _Place(3, (4.0, 5))]

    def forward(self, x):
        return x + len(self.places)


def test_named_tuples_of_unknown_types_are_values_of_any():
    made = jit.script(_Places())
    assert made(t.zeros(1)).item() == 2.0 and made.places == [(1, (2,)), (3, (4.0, 5))]


class _Positions(nn.Module):
    """As timm's: which buffer there is decides what the method returns; a tuple goes where a list may be."""

    def __init__(self, by_shape):
        super().__init__()
        self.register_buffer("bands", t.ones(2) if by_shape else None)
        self.table = None if by_shape else t.ones(2)

    def embedding(self, shape: Maybe[Many[int]] = None):
        if shape is not None and self.bands is not None:
            return t.cat([self.bands, t.ones(shape)])
        elif self.table is not None:
            return self.table
        else:
            assert False, "neither a shape nor a table"

    def forward(self, x, size: Maybe[Many[int]] = None):
        if size is None:
            size = 3, x.shape[0]
        return self.embedding(size[:1]).sum() + size[1]


def test_an_assertion_of_false_ends_a_function_and_tuples_become_lists_where_these_were():
    for by_shape, size in ((True, [4, 5]), (True, None), (False, None)):
        module = _Positions(by_shape)
        assert jit.script(module)(t.ones(2), size).item() == module(t.ones(2), size).item()
    with pytest.raises(jit.Error, match="AssertionError: no list"):

        @jit.script
        def refused(x):
            assert False, "no list"

        refused(t.ones(1))


def test_traces_are_checked_with_inputs_of_other_sizes():
    made = jit.trace(lambda x: x.tanh() * 2, t.ones(3, 2), check_inputs=[(t.ones(4, 2),), (t.ones(1, 2, 2),)])
    assert made(t.zeros(5)).tolist() == [0.0] * 5
    with pytest.raises(jit.TracingCheckError, match="Graphs differed"):
        jit.trace(lambda x: x.tanh() if len(x) == 3 else x * 2, t.ones(3), check_inputs=[(t.ones(4),)])


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
        t.norm(x, p=0, keepdim=True),
        t.norm(x, 1, [1], True),
        t.norm(x, "nuc"),
        t.norm(x, p=None, dim=1, dtype=t.float64),
        t.cdist(x, x, compute_mode="use_mm_for_euclid_dist"),
        t.cdist(x, x, 1.0),
        x.where(x > 2, x * 0),
    )


def factored(x):
    a = x @ x.t() + 1
    return t.lu(a), t.lu(a, get_infos=True), t.lu(a, True, False), t.lu(a, out=(t.zeros_like(a), t.lu(a)[1].clone()))


def low_rank(x):
    t.manual_seed(2)
    a, b = t.svd_lowrank(x, 2, M=x[:1] * 0.5), t.svd_lowrank(x.t(), q=1, niter=1)
    square = x @ x.t() + t.eye(2)
    return a, b, t.pca_lowrank(x.t()), t.pca_lowrank(x, 1, False), t.lobpcg(t.block_diag(square, square), 1)[0]


def truths(x):
    return t.dropout(x, True, True), t.fft.fftfreq(4, True)


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
        (factored, t.arange(6.0).view(2, 3)),
        (low_rank, t.tensor([[1.0, 2.0, 0.5], [3.0, 1.0, -1.0]], dtype=t.float64)),
        (truths, t.ones(3)),
        (grids, t.arange(6.0).view(1, 1, 2, 3)),
    ],
    ids=["pools", "distinct", "joined", "factored", "low_rank", "truths", "grids"],
)
def test_functions_of_several_forms_are_those_of_python(fn, x):
    got, want = jit.script(fn)(x), fn(x)
    assert [isinstance(v, list | tuple) for v in got] == [not isinstance(v, t.Tensor) for v in want]
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
