"""Parts of fx.experimental that other programs use: normal forms of calls, models for inference; operators by name."""

import pytest

import tessera
from tessera import nn
from tessera.fx import symbolic_trace
from tessera.fx.experimental.const_fold import FoldedGraphModule, get_unique_attr_name_in_module, split_const_subgraphs
from tessera.fx.experimental.normalize import NormalizeArgs
from tessera.fx.experimental.optimization import fuse, remove_dropout
from tessera.fx.experimental.rewriter import AST_Rewriter, RewritingTracer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.25)
        self.other, self.shown = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.other(self.drop(tessera.relu(self.norm(self.conv(x)))))
        return self.shown(y) + y.mean()


@pytest.fixture
def block():
    tessera.manual_seed(0)
    made = Block()
    made(tessera.randn(2, 3, 6, 6))
    return made.eval()


def names(module):
    return [name for name, _ in module.named_modules() if name]


def test_norms_become_part_of_weights(block):
    x, before = tessera.randn(2, 3, 6, 6), block.conv.weight.clone()
    made = fuse(block)
    assert names(made) == ["conv", "drop", "other", "shown"]  # what the last one norms is used without it, too
    tessera.testing.assert_close(made(x), block(x))
    assert tessera.equal(block.conv.weight, before)
    again = fuse(symbolic_trace(block), no_trace=True)
    assert names(again) == names(made)
    with pytest.raises(RuntimeError, match="call model.eval"):
        fuse(Block())


def test_dropout_is_taken_out(block):
    made, x = remove_dropout(block), tessera.randn(2, 3, 6, 6)
    assert "drop" not in names(made) and tessera.equal(made(x), block(x))


@pytest.mark.parametrize("only_names", [True, False])
def test_calls_in_normal_form(block, only_names):
    traced, x = symbolic_trace(block), tessera.randn(2, 3, 6, 6)
    made = NormalizeArgs(traced, normalize_to_only_use_kwargs=only_names)
    normal = made.transform()
    (conv,) = normal.graph.find_nodes(op="call_module", target="conv")
    assert (set(conv.kwargs), len(conv.args)) == (({"input"}, 0) if only_names else (set(), 1))
    assert tessera.equal(normal(x), block(x)) and len(made.node_map) == len(traced.graph.nodes) - 1


def test_operators_that_are_made_when_they_are_named():
    aten, x = tessera.ops.aten, tessera.ones(2, 3, requires_grad=True)
    assert [aten.sym_size.default(x), aten.sym_size.int(x, 1), aten.dim.default(x)] == [[2, 3], 3, 2]
    aten._unsafe_view.default(x, [6])[2].backward()
    assert x.grad.sum() == 1 and aten.is_contiguous.default(x) and not aten.is_complex.default(x)
    assert aten._unsafe_index.Tensor(x, [None, tessera.tensor([0, 2])]).shape == (2, 2)
    assert aten._safe_softmax.default(tessera.full((1, 2), -float("inf")), 1).tolist() == [[0, 0]]
    assert tessera.ops.prims.convert_element_type.default(x, tessera.float64).dtype is tessera.float64
    assert tessera.ops.prim.layout.default(x) is tessera.strided
    assert aten.copy.default(x, tessera.zeros(3)).tolist() == [[0] * 3] * 2
    aten._assert_tensor_metadata.default(x, [2, 3], dtype=tessera.float32)
    aten.sym_constrain_range_for_size.default(3, max=4)
    for call in (lambda: aten._assert_tensor_metadata.default(x, [2, 4]),
                 lambda: aten.sym_constrain_range_for_size.default(-1)):  # fmt: skip
        with pytest.raises(RuntimeError, match="mismatch|Invalid value range"):
            call()
    with pytest.raises(AttributeError):
        aten.no_such_operator  # noqa: B018


@pytest.mark.parametrize(("layer", "hidden"), [(nn.LSTM, 2), (nn.GRU, 1), (nn.RNN, 1)])
def test_recurrent_operators(layer, hidden):
    made, x, h = layer(3, 4, batch_first=True), tessera.randn(2, 5, 3), tessera.zeros(1, 2, 4)
    op = getattr(tessera.ops.aten, {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn_tanh"}[layer]).input
    found = op(x, [h, h] if hidden == 2 else h, list(made.parameters()), True, 1, 0.0, False, False, True)
    assert len(found) == hidden + 1 and tessera.allclose(found[0], made(x)[0])


def test_numbers_and_ranges_under_the_names_that_programs_import():
    from tessera.utils._sympy.numbers import IntInfinity, int_oo
    from tessera.utils._sympy.value_ranges import ValueRanges

    found = tessera.export.export(nn.ReLU(), (tessera.ones(4),), dynamic_shapes=({0: tessera.export.Dim("n")},))
    (limits,) = found.range_constraints.values()
    assert isinstance(limits, ValueRanges) and isinstance(limits.upper, IntInfinity) and limits.upper == int_oo
    assert tessera.fx.experimental.proxy_tensor.py_sym_types[0] is tessera.SymInt


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(tessera.randn(3)), nn.Parameter(tessera.ones(3))
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)

    def forward(self, x):
        y = x * (self.weight * 2).relu() + self.scale
        return y + tessera.rand_like(self.scale) * 0, self.weight - 1, self.drop(self.scale * 3)


def test_constants_are_computed_once():
    model, x = Weighted(), tessera.randn(2, 3)
    for node in (traced := symbolic_trace(model)).graph.nodes:
        node.meta["of"] = node.name
    made = split_const_subgraphs(traced)
    assert isinstance(made, FoldedGraphModule) and not made.has_folding_been_run
    got, want = made(x), model.eval()(x)
    assert tessera.equal(got[0], want[0]) and tessera.equal(got[1], want[1]) and not tessera.equal(got[2], want[2])
    assert made.has_folding_been_run and len(made._FX_CONST_FOLDED_ATTRS) == 3
    calls = [n.name for n in made.graph.nodes if n.op in ("call_method", "call_module")]
    assert calls == ["drop"]  # it is random while it trains; the relu is computed
    assert [n.meta["of"] for n in made.graph.nodes if n.target == "scale"] == ["scale"]
    with pytest.raises(AssertionError, match="already"):
        made.run_folding()
    assert not hasattr(traced, "_FX_CONST_FOLDED_ATTRS")


def test_nothing_that_is_constant():
    x = tessera.randn(3)
    made = split_const_subgraphs(Weighted().eval(), skip_folding_node_fn=lambda node: True)
    assert made.const_subgraph_module is None and len(made(x)) == 3
    with pytest.raises(AssertionError, match="no constants"):
        made.run_folding()
    model = Weighted()
    model.weight_1 = None
    assert get_unique_attr_name_in_module(model, "weight") == "weight_2"
    assert get_unique_attr_name_in_module(model, "other") == "other"


class Asserting(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner

    def forward(self, x, limit=3):
        assert x.shape[0] == 3, "three rows"
        assert limit
        y: tessera.Tensor = x + offset
        return y if self.inner is None else self.inner(y)


offset = 1


def test_asserts_stay_in_the_graph():
    tracer = RewritingTracer()
    graph = tracer.trace(model := Asserting(Asserting()))
    made = tessera.fx.GraphModule(tracer.root, graph)
    assert made(tessera.zeros(3)).tolist() == [2] * 3 and type(model) is Asserting
    for args, text in (((tessera.zeros(2),), "three rows"), ((tessera.zeros(3), 0), "^$")):
        with pytest.raises(AssertionError, match=text):
            made(*args)


def test_rewritten_functions_keep_their_variables():
    k = 5

    def function(x, *, more=2):
        assert x, f"got {x}"
        return x * k + more + offset

    made = AST_Rewriter().rewrite(function)
    assert made(1) == function(1) == 8 and made.__name__ == "function" and made.__globals__ is function.__globals__
    with pytest.raises(AssertionError, match="got 0"):
        made(0)
    assert AST_Rewriter().rewrite(abs) is abs


def test_dequantize_is_a_leaf_of_traces():
    graph = symbolic_trace(lambda x: tessera.dequantize(x)).graph
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [tessera.dequantize]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return super().__call__(x)

    def forward(self, x):
        return x * 2


@pytest.mark.parametrize("leaf", [True, False])
def test_calls_of_programs_run_while_tracing(leaf):
    class Tracer(tessera.fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return leaf

    model = nn.Sequential(Counting(), nn.ReLU())
    graph = Tracer().trace(model)
    assert model[0].calls == 1
    assert [n.op for n in graph.nodes][1:3] == (["call_module"] * 2 if leaf else ["call_function"] * 2)
    assert Counting()(tessera.ones(1)).item() == 2


def test_scripted_modules_are_called_as_methods():
    made = symbolic_trace(nn.Sequential(tessera.jit.script(Block().norm.eval())))
    assert [n.op for n in made.graph.nodes] == ["placeholder", "get_attr", "call_method", "output"]
    x = tessera.randn(2, 4, 3, 3)
    tessera.testing.assert_close(made(x), nn.BatchNorm2d(4).eval()(x))


def test_one_node_or_proxy_is_copied_with_its_graph():
    import copy

    traced = symbolic_trace(lambda x: (x + 1) * 2)
    node = list(traced.graph.nodes)[1]
    made = copy.deepcopy(node)
    assert made is not node and made.graph is not node.graph and made.name == node.name
    assert len(made.graph.nodes) == 4 and list(made.users)[0].graph is made.graph
    proxy, same = copy.deepcopy((tessera.fx.Proxy(node), node))
    assert proxy.node is same and proxy.tracer is not tessera.fx.Proxy(node).tracer
