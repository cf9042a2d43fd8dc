"""symbolic_trace: what becomes a node, and the code that comes of it."""

import copy
import functools
import math
import operator
import pickle
import sys
import typing
from math import sqrt
from typing import List

import pytest
import tessera
from tessera import fx, nn
from tessera.fx._symbolic_trace import PHWithMeta, is_fx_tracing


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(tessera.arange(4.0))
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("shift", tessera.ones(4))
        self.constant = tessera.full((4,), 2.0)

    def forward(self, x, *rest, scale: int = 3, **named):
        y = self.layers(x) + self.weight - self.shift
        first, second = y[:, 0:2].split(1, dim=1)
        return {"a": (first, x.shape[0])}, second * scale * self.constant[:1], rest[0], named["k"], math.sqrt(x.size(0))


CODE = """def forward(self, x, scale : int = 3, *rest, **named):
    _rest = rest
    _named = named
    layers_0 = getattr(self.layers, "0")(x)
    layers_1 = getattr(self.layers, "1")(layers_0);  layers_0 = None
    weight = self.weight
    add = layers_1 + weight;  layers_1 = weight = None
    shift = self.shift
    sub = add - shift;  add = shift = None
    getitem = sub[(slice(None, None, None), slice(0, 2, None))];  sub = None
    split = getitem.split(1, dim = 1);  getitem = None
    getitem_1 = split[0]
    getitem_2 = split[1];  split = None
    getattr_1 = x.shape
    getitem_3 = getattr_1[0];  getattr_1 = None
    mul = getitem_2 * scale;  getitem_2 = scale = None"""


def test_code_of_a_module():
    traced = fx.symbolic_trace(Block())
    assert traced.code.strip().split('wrap("math_sqrt")\n\n')[1].startswith(CODE)
    x = tessera.rand(2, 4)
    block = Block()
    expected = block(x, 1, scale=2, k=5)
    got = fx.symbolic_trace(block)(x, 2, 1, k=5)
    assert tessera.equal(got[0]["a"][0], expected[0]["a"][0]) and got[0]["a"][1] == 2
    assert tessera.equal(got[1], expected[1]) and got[2:] == expected[2:]


def test_constants_become_attributes():
    traced = fx.symbolic_trace(lambda x: x + tessera.ones(2))
    assert "_tensor_constant0" in traced.code
    assert traced(tessera.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "function, code",
    [
        (lambda x: -x + 1, "neg = -x;  x = None"),
        (lambda x: 2**x, "pow_1 = 2 ** x;  x = None"),
        (lambda x: x & 1, "and_ = x & 1;  x = None"),
        (lambda x: 3 - x, "sub = 3 - x;  x = None"),
        (lambda x: x > 1, "gt = x > 1;  x = None"),
        (lambda x: x.T, "getattr_1 = x.T;  x = None"),
        (lambda x: x.to(tessera.float64), "to = x.to(torch.float64);  x = None"),
        (lambda x: x.view(tessera.Size([1, 2])), "view = x.view((1, 2));  x = None"),
        (lambda x: tessera.cat([x, x], dim=0), "cat = torch.cat([x, x], dim = 0);  x = None"),
        (
            lambda x: nn.functional.relu(x),
            "relu = torch.nn.functional.relu(x, inplace = False);  x = None",
        ),
        (lambda x: tessera.ops.aten.add.Tensor(x, 1), "add_tensor = torch.ops.aten.add.Tensor(x, 1);  x = None"),
        (lambda x: x * float("inf"), "mul = x * inf;  x = None"),
    ],
)
def test_lines(function, code):
    assert code in fx.symbolic_trace(function).code.split("\n    ")


def test_what_cannot_be_traced():
    trace = fx.symbolic_trace
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        trace(lambda x: 1 if x else 2)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        trace(lambda x: list(x))
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        trace(lambda x: x.__len__())  # len(x) is a leaf here, see below
    with pytest.raises(TypeError):
        trace(lambda x: int(x))
    with pytest.raises(NotImplementedError, match="argument of type"):
        trace(lambda x: x + object())
    assert not is_fx_tracing()


def test_nothing_stays_patched_after_an_error():
    class Fails(nn.Linear):
        def __call__(self, x):
            return super().__call__(x)

    call, read, own = nn.Module.__call__, nn.Module.__getattr__, Fails.__call__
    block = nn.Sequential(Fails(2, 2))
    with pytest.raises(ZeroDivisionError):
        fx.symbolic_trace(lambda x: 1 / 0)
    assert [n.op for n in fx.symbolic_trace(block).graph.nodes] == [
        "placeholder",
        *["get_attr"] * 2,
        "call_function",
        "output",
    ]
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is read and Fails.__call__ is own
    assert type(block(tessera.ones(1, 2))) is tessera.Tensor and type(block[0].weight) is nn.Parameter


def test_other_threads_are_not_traced():
    import threading

    layer, seen = nn.Linear(2, 2), []

    def function(x):
        thread = threading.Thread(target=lambda: seen.append(layer(tessera.ones(1, 2))))
        thread.start()
        thread.join()
        return x

    fx.symbolic_trace(function)
    assert type(seen[0]) is tessera.Tensor


def _leaf(x, y=1):
    return x + y


fx.wrap("_leaf")
fx.wrap("len")


def test_wrapped_functions_are_leaves():
    traced = fx.symbolic_trace(lambda x: _leaf(x, y=len(x)))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [len, _leaf]
    assert traced(tessera.ones(3)).tolist() == [4.0] * 3
    assert pickle.loads(pickle.dumps(traced))(tessera.ones(3)).tolist() == [4.0] * 3
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("_leaf")
    with pytest.raises(RuntimeError):
        fx.wrap(3)


def test_concrete_arguments():
    def function(x, flag, nothing=None):
        return x if flag else x * 2

    traced = fx.symbolic_trace(function, concrete_args={"flag": False, "nothing": None})
    assert traced(tessera.tensor(2.0), False).item() == 4
    with pytest.raises(AssertionError, match="flag has been specialized"):
        traced(tessera.tensor(2.0), True)
    with pytest.raises(AssertionError, match="nothing has been specialized"):
        traced(tessera.tensor(2.0), False, 1)


def test_trees_of_arguments():
    def function(x, tree):
        return {"sum": x + tree["a"], "rest": [tree["b"][0], tree["b"][1]]}

    traced = fx.symbolic_trace(function, concrete_args={"tree": {"a": fx.PH, "b": [fx.PH, 3]}})
    tree = {"a": tessera.tensor(2.0), "b": [tessera.tensor(5.0), 3]}
    result = traced(tessera.tensor(1.0), tree)
    assert result["sum"].item() == 3 and result["rest"][0].item() == 5 and result["rest"][1] == 3
    again = fx.Interpreter(traced).run(tessera.tensor(1.0), tree)
    assert again["sum"].item() == 3


def test_trees_of_arguments_and_functions_that_are_leaves():
    traced = fx.symbolic_trace(lambda tree: sqrt(tree["a"].item()) + tree["b"], {"tree": {"a": fx.PH, "b": 1}})
    assert [n.target for n in traced.graph.nodes if n.op == "call_function" and n.target is sqrt] == [sqrt]
    assert traced({"a": tessera.tensor(9.0), "b": 1}) == 4.0


def test_stack_traces_and_module_stacks():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    nodes = {n.name: n for n in tracer.trace(Block()).nodes}
    assert "layers(x)" in nodes["add"].stack_trace
    assert list(nodes["layers_0"].meta["nn_module_stack"]) == ["layers", "layers.0"]


def test_asserts_can_be_nodes():
    space = {}
    exec("def function(x):\n    assert x.shape[0] == 2, 'two'\n    return x", space)  # pytest rewrites its own asserts
    tracer = fx.Tracer()
    tracer.trace_asserts = True
    graph = tracer.trace(space["function"])
    assert tessera._assert in [n.target for n in graph.nodes]
    with pytest.raises(AssertionError):
        fx.GraphModule(tracer.root, graph)(tessera.ones(3))


def test_shapes_of_parameters_can_be_numbers():
    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(tessera.ones(2, 3))

        def forward(self, x):
            return x * 2 if self.w.shape[0] == 2 and self.w.numel() == 6 else x

    traced = fx.GraphModule(m := Uses(), fx.Tracer(param_shapes_constant=True).trace(m))
    assert traced(tessera.tensor(1.0)).item() == 2


def test_attributes_that_are_called_are_methods():
    graph = fx.symbolic_trace(lambda x: x.sum().sin).graph
    assert [(n.op, n.target) for n in graph.nodes if n.op.startswith("call")] == [
        ("call_method", "sum"),
        ("call_function", getattr),
    ]
    assert operator.getitem not in [n.target for n in graph.nodes]


def test_modules_have_their_short_ways_back():
    """A call of a module without hooks runs its forward, and nothing of Module's in Python."""

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(tessera.ones(1))

        def forward(self, x):
            return x + self.w

    plain, seen = Plain(), []
    fx.symbolic_trace(nn.Sequential(nn.Linear(1, 1), Plain()))
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        plain(1.0)
    finally:
        sys.setprofile(before)
    assert seen == ["forward"]


def test_checks_are_recorded():
    traced = fx.symbolic_trace(lambda x: (tessera._assert(x.sum() > 0, "not positive"), x)[1])
    assert traced.graph.eliminate_dead_code() is False
    assert traced(tessera.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError, match="not positive"):
        traced(-tessera.ones(2))


def test_annotations_stay():
    def program(x: tessera.Tensor, n: int = 2) -> tessera.Tensor:
        return x * n

    traced = fx.symbolic_trace(program)
    assert "def forward(self, x : torch.Tensor, n : int = 2) -> torch.Tensor:" in traced.code
    assert traced(tessera.ones(1), 3).item() == 3


@pytest.mark.parametrize(
    "kind, text",
    [
        (typing.Tuple[tessera.Tensor, tessera.Tensor], "typing_Tuple[torch.Tensor,torch.Tensor]"),
        (typing.Optional[int], "typing_Union[int,NoneType]"),
        (typing.Tuple[int, ...], "typing_Tuple[int,...]"),
        (typing.Callable[[int], str], "typing_Callable[[int],str]"),
        (typing.List[typing.Dict[str, Block]], None),
        (typing.Any, "typing_Any"),
        (tuple[int, tessera.dtype], "tuple[int,torch.dtype]"),
        (type(None), "NoneType"),
    ],
)
def test_generic_annotations_are_globals(kind, text):
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=kind)
    y = graph.call_function(tessera.relu, (x,), type_expr=kind)
    graph.output(y, type_expr=kind)
    made = fx.GraphModule({}, graph)
    assert made(tessera.tensor(-1.0)).item() == 0
    assert made.forward.__annotations__["return"] in (kind, None)  # None: what NoneType says
    assert text is None or made.code.count(text) == 3


def test_constants_of_replacements():
    traced = fx.symbolic_trace(lambda x: (x.neg() + tessera.full((1,), 10.0)).sin())
    assert len(fx.replace_pattern(traced, lambda x: x.neg(), lambda x: x + tessera.full((1,), 5.0))) == 1
    assert len(fx.replace_pattern(traced, lambda x: x.sin(), lambda x: x * tessera.full((1,), 2.0))) == 1
    traced.graph.lint()
    assert traced(tessera.ones(1)).item() == (1 + 5 + 10) * 2
    assert len({n.target for n in traced.graph.nodes if n.op == "get_attr"}) == 3


def test_code_is_written_when_it_is_asked_for_and_is_that_of_the_trace():
    import copy
    import inspect
    import pickle

    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = tessera.ones(1, 2)
    assert tessera.equal(fx.symbolic_trace(module)(x), module(x))
    edited = fx.symbolic_trace(lambda x: tessera.relu(x))
    for node in edited.graph.nodes:
        if node.target is tessera.relu:
            node.target = tessera.neg
    assert edited(x).tolist() == [[1.0, 1.0]]  # as traced, until recompile()
    edited.recompile()
    assert edited(x).tolist() == [[-1.0, -1.0]]
    for change in (
        copy.deepcopy,
        copy.copy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: fx.GraphModule(m, m.graph),
    ):
        assert tessera.equal(change(fx.symbolic_trace(module))(x), module(x))
    assert list(inspect.signature(fx.symbolic_trace(module).forward).parameters) == ["input"]
    assert list(inspect.signature(type(fx.symbolic_trace(module)).forward).parameters) == ["self", "input"]
    assert "return" in fx.symbolic_trace(module).code and "def forward" in str(fx.symbolic_trace(module))


def test_operators_are_recorded_as_they_are_called():
    def function(x):
        return tessera.ops.aten.cat([tessera.ops.aten.view(x, [2, 2]), x.view(2, 2)]), tessera.ops.aten.add.Tensor(x, x)

    traced = fx.symbolic_trace(function)
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets == [tessera.ops.aten.view, tessera.ops.aten.cat, tessera.ops.aten.add.Tensor]
    x = tessera.randn(4)
    for got, wanted in zip(copy.deepcopy(traced)(x), function(x)):
        assert tessera.equal(got, wanted)


def test_quantizing_is_one_node():
    def function(x):
        return tessera.quantize_per_tensor(x, 0.5, zero_point=3, dtype=tessera.quint8).dequantize()

    traced, x = fx.symbolic_trace(function), tessera.tensor([0.2, 1.7])
    assert [n.target for n in traced.graph.nodes][1:3] == [tessera.quantize_per_tensor, "dequantize"]
    assert tessera.equal(fx.symbolic_trace(traced)(x), function(x)) and "torch.quantize_per_tensor(x" in traced.code


def test_open_arguments_with_notes():
    function = lambda a, b: a["f1"] + b  # noqa: E731
    traced = fx.symbolic_trace(function, concrete_args=({"f1": PHWithMeta("first")}, PHWithMeta(ph_key="second")))
    inputs = traced.graph.find_nodes(op="placeholder")
    assert [(n.name, n.ph_key) for n in inputs] == [("a_1", "first"), ("b_1", "second")]
    assert repr(PHWithMeta("x")) == "PHWithMeta('x')" and traced({"f1": 2}, 3) == 5
    with pytest.raises(RuntimeError, match="expected 2 arguments but got 1"):
        fx.symbolic_trace(function, concrete_args=(fx.PH,))


def test_decorators_of_forward_are_traced_through():
    def rectified(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            return tessera.relu(function(*args, **kwargs))

        return call

    class M(nn.Module):
        @rectified
        def forward(self, x, *, y):
            return x + y

    traced = fx.symbolic_trace(M())
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"] == [operator.add, tessera.relu]

    class Starred(nn.Module):
        @rectified
        def forward(self, x, *rest):
            return x

    with pytest.raises(RuntimeError, match="without its decorator"):
        fx.symbolic_trace(Starred())


def test_graph_modules_and_modules_with_calls_of_their_own_are_leaves():
    class Counted(nn.Module):
        def forward(self, x):
            return x

        def __call__(self, *args):
            return super().__call__(*args)

    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    graph = Leaves().trace(nn.Sequential(Counted(), fx.symbolic_trace(nn.ReLU())))
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["0", "1"]


def test_code_with_names_of_its_own_globals_and_writes_of_numbers():
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    inf = graph.create_node("call_function", operator.add, (a, float("inf")), name="inf")
    nan = graph.create_node("call_function", operator.imul, (a, b), name="nan")
    graph.output((inf, nan))
    made = fx.GraphModule({}, graph)
    assert made(2, 3) == (math.inf, 6) and "a *= b" in made.code and {inf.name, nan.name} == {"inf_1", "nan_1"}


def test_annotations_that_no_name_reaches_are_text():
    class Local:
        pass

    def function(x: "Local", y: List["Local"], z: "torch.Tensor"):  # noqa: F821
        return x

    traced = fx.symbolic_trace(function)
    assert "x : 'Local'" in traced.code and "['Local']" in traced.code and "z : torch.Tensor" in traced.code
    assert pickle.loads(pickle.dumps(traced))(1, [], 2) == 1


def test_circles_of_notes_are_copied_and_additions_are_pickled():
    traced = fx.symbolic_trace(nn.Linear(1, 1))
    traced.meta["self"] = traced
    assert (made := copy.deepcopy(traced)).meta["self"] is made
    traced.meta.clear()
    traced.add_submodule("more", nn.ReLU())
    traced.register_buffer("b", tessera.ones(1))
    other = pickle.loads(pickle.dumps(traced))
    assert isinstance(other.more, nn.ReLU) and other.b.item() == 1


class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, first):
        self.first = first

    def plus(self, other):
        return Pair(self.first + other.first)


def test_objects_of_proxyable_classes_are_constants():
    traced = fx.symbolic_trace(lambda p: p.plus(Pair(tessera.ones(1))))
    assert traced(Pair(tessera.ones(1))).first.item() == 2
