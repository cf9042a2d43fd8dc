"""Graphs, GraphModules, interpreters and passes."""

import copy
import operator
import pickle
import sys

import pytest
import tessera
from tessera import fx, nn
from tessera.fx.operator_schemas import get_signature_for_torch_op
from tessera.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper, this_before_that_pass_constraint
from tessera.fx.passes.shape_prop import ShapeProp
from tessera.fx.passes.split_module import split_module
from tessera.fx.subgraph_rewriter import replace_pattern_with_filters


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.weight = nn.Parameter(tessera.ones(4))
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        a = self.first(x)
        b = tessera.relu(a + self.weight)
        return self.rest(b) * a


@pytest.fixture
def net():
    tessera.manual_seed(0)
    return Net()


X = tessera.linspace(-1, 1, 8).view(2, 4)


def names(graph):
    return [n.name for n in graph.nodes]


def test_names_are_unique_and_no_builtins():
    g = fx.Graph()
    x = g.placeholder("x")
    made = [g.call_method(m, (x,)) for m in ("sum", "float", "x", "__add__", "view_7", "view_7")]
    assert [n.name for n in made] == ["sum_1", "float_1", "x_1", "add", "view_7", "view_8"]
    g.output(made[0])
    g.lint()


def test_users_follow_arguments():
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    n = g.call_function(tessera.cat, ([x, y],), {"dim": 0})
    assert list(x.users) == [n] and n.all_input_nodes == [x, y]
    n.replace_input_with(x, y)
    assert not x.users and n.args == ([y, y],)
    n.update_kwarg("dim", 1)
    assert n.kwargs == {"dim": 1}
    with pytest.raises(TypeError, match="does not support mutation"):
        n.args[0].append(x)
    with pytest.raises(AssertionError):
        n.insert_arg(5, 1)


def test_moving_and_ordering():
    g = fx.symbolic_trace(lambda x: x.sin() + x.cos()).graph
    by_name = {n.name: n for n in g.nodes}
    by_name["sin"].prepend(by_name["cos"])
    assert names(g) == ["x", "cos", "sin", "add", "output"]
    assert by_name["cos"] < by_name["sin"] and max(g.nodes).name == "output"
    by_name["add"].append(by_name["cos"])
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        g.lint()


def test_erasing_while_iterating():
    g = fx.symbolic_trace(lambda x: (x.sin(), x.cos())[1]).graph
    for n in g.nodes:
        if n.name == "sin":
            g.erase_node(n)
    assert names(g) == ["x", "cos", "output"] and len(g.nodes) == 3
    with pytest.raises(RuntimeError, match="still had 1 users"):
        g.erase_node(next(iter(g.nodes)))


def test_dead_code_keeps_what_acts():
    def function(x):
        x.sin()
        x.add_(1)
        tessera.rand(2)
        return x.cos()

    g = fx.symbolic_trace(function).graph
    g.owning_module = None
    assert g.eliminate_dead_code()
    assert names(g) == ["x", "add_", "cos", "output"]  # rand(2) has no proxy among its arguments: it is no node


def test_copies_and_pickles(net):
    traced = fx.symbolic_trace(net)
    for other in (copy.deepcopy(traced), copy.copy(traced), pickle.loads(pickle.dumps(traced))):
        assert other.code == traced.code and tessera.equal(other(X), net(X))
    assert copy.deepcopy(traced).weight is not traced.weight and copy.copy(traced).weight is traced.weight
    graph = pickle.loads(pickle.dumps(traced.graph))
    assert str(graph) == str(traced.graph)
    assert str(copy.deepcopy(traced.graph)) == str(traced.graph)


def test_each_module_has_its_own_class():
    a, b = fx.symbolic_trace(lambda x: x + 1), fx.symbolic_trace(lambda x: x + 2)
    assert type(a) is not type(b) and a(1) == 2 and b(1) == 3
    assert isinstance(a, fx.GraphModule)


def test_to_folder(net, tmp_path, monkeypatch):
    fx.symbolic_trace(net).to_folder(tmp_path / "saved_net", "Saved")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", tessera)
    for name in ("nn", "fx"):
        monkeypatch.setitem(sys.modules, f"torch.{name}", getattr(tessera, name))
    import saved_net

    assert tessera.equal(saved_net.Saved()(X), net(X))


def test_changes_of_the_text():
    traced = fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda old: lambda lines: ["y = 1\n", *lines]):
        traced.recompile()
        assert "y = 1" in traced.code
    traced.recompile()
    assert "y = 1" not in traced.code


def test_errors_show_the_generated_line(capsys):
    traced = fx.symbolic_trace(lambda x: tessera.matmul(x, x))
    with pytest.raises(RuntimeError):
        traced(tessera.ones(2, 3))
    assert "matmul = torch.matmul(x, x)" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="While executing %matmul"):
        fx.Interpreter(traced).run(tessera.ones(2, 3))


def test_interpreter(net):
    traced = fx.symbolic_trace(net)
    assert tessera.equal(fx.Interpreter(traced).run(X), net(X))
    given = [X]
    assert tessera.equal(fx.Interpreter(traced).boxed_run(given), net(X)) and not given
    add = next(n for n in traced.graph.nodes if n.name == "add")
    replaced = fx.Interpreter(traced, garbage_collect_values=False).run(X, initial_env={add: -tessera.ones(2, 4)})
    assert tessera.equal(replaced, net.rest(tessera.zeros(2, 4)) * net.first(X))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()


def test_shape_prop(net):
    traced = fx.symbolic_trace(net)
    ShapeProp(traced).propagate(X)
    found = {n.name: n.meta["tensor_meta"] for n in traced.graph.nodes if "tensor_meta" in n.meta}
    assert found["add"].shape == (2, 4) and found["weight"].requires_grad and found["add"].stride == (4, 1)
    assert found["x"].memory_format == tessera.contiguous_format


@pytest.mark.parametrize("keep", [False, True])
def test_split_module(net, keep):
    traced = fx.symbolic_trace(net)
    qualified = {}
    part = {"first": 0, "add": 0, "relu": 1}
    split = split_module(traced, net, lambda n: part.get(n.name, 2), qualified, keep_original_order=keep)
    assert [n for n, _ in split.named_children()] == ["submod_0", "submod_1", "submod_2"]
    assert tessera.equal(split(X), net(X))
    assert qualified["submod_2.rest_0"] == "rest.0" and split.submod_2.rest_0 is net.rest[0]
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(traced, net, lambda n: {"add": 1}.get(n.name, 0))


def test_replacing_patterns():
    traced = fx.symbolic_trace(lambda x, y: tessera.relu(x + y) * tessera.relu(x + 1) + (x + y))
    found = fx.replace_pattern(traced, lambda a, b: tessera.relu(a + b), lambda a, b: tessera.sigmoid(a * b))
    assert len(found) == 2
    traced.graph.lint()
    x, y = tessera.tensor(2.0), tessera.tensor(3.0)
    expected = tessera.sigmoid(x * y) * tessera.sigmoid(x * 1) + (x + y)
    assert tessera.equal(traced(x, y), expected)


def test_a_value_used_outside_stays():
    traced = fx.symbolic_trace(lambda x: (s := x.sin()).cos() + s)
    assert not fx.replace_pattern(traced, lambda x: x.sin().cos(), lambda x: x)


def test_chained_matches():
    traced = fx.symbolic_trace(lambda x: x.sin().sin().sin())
    assert len(fx.replace_pattern(traced, lambda x: x.sin(), lambda x: x.cos())) == 3
    assert [n.target for n in traced.graph.nodes if n.op == "call_method"] == ["cos"] * 3
    x = tessera.tensor(0.5)
    assert tessera.equal(traced(x), x.cos().cos().cos())


def test_filters_and_callbacks():
    traced = fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    only_two = [lambda match, original, pattern: match.anchors[0].args[1] == 2]
    found = replace_pattern_with_filters(traced, lambda a: a + 3, lambda a: a - 3, only_two, ignore_literals=True)
    assert len(found) == 1 and traced(tessera.tensor(5.0)).item() == 12.0
    assert [n.target for n in found[0].replacements] == [operator.sub]
    with pytest.raises(AssertionError):
        replace_pattern_with_filters(traced, lambda a: a + 3)


def test_pass_manager():
    ran = []

    def double(gm):
        ran.append("double")
        for n in gm.graph.find_nodes(op="call_function", target=operator.add):
            n.target = operator.mul

    def note(gm):
        ran.append("note")

    first, second = pass_result_wrapper(double), pass_result_wrapper(note)
    manager = PassManager([second, first], [this_before_that_pass_constraint(first, second)])
    result = manager(fx.symbolic_trace(lambda x: x + 3))
    assert ran == ["double", "note"] and result.modified and result.graph_module(2) == 6
    with pytest.raises(TypeError):
        PassManager([lambda gm: None])(fx.symbolic_trace(lambda x: x))


def test_arguments_by_name():
    graph = fx.symbolic_trace(lambda x: nn.functional.dropout(x, 0.2)).graph
    (call,) = graph.find_nodes(op="call_function", target=nn.functional.dropout)
    pair = call.normalized_arguments(None, normalize_to_only_use_kwargs=True)
    assert pair.args == () and list(pair.kwargs) == ["input", "p", "training", "inplace"]
    graph = fx.symbolic_trace(lambda x: tessera.sum(x, 1)).graph
    (call,) = graph.find_nodes(op="call_function", target=tessera.sum)
    pair = call.normalized_arguments(None, (tessera.Tensor, int), None, True)
    assert pair.kwargs["dim"] == 1 and pair.kwargs["keepdim"] is False


def test_transformer_keeps_parameters(net):
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(tessera.sigmoid if target is tessera.relu else target, args, kwargs)

    swapped = Swap(fx.symbolic_trace(net)).transform()
    a = net.first(X)
    assert tessera.equal(swapped(X), net.rest(tessera.sigmoid(a + net.weight)) * a)
    assert swapped.weight is net.weight


def test_provenance():
    from tessera.fx import traceback as notes

    traced = fx.symbolic_trace(lambda x: x.sin())
    node = next(n for n in traced.graph.nodes if n.name == "sin")
    node.meta["custom"] = {"why": 1}
    tracer = fx.proxy.GraphAppendingTracer(fx.Graph())
    with notes.preserve_node_meta(), notes.set_current_meta(node, "pass"):
        made = tracer.create_proxy("call_function", tessera.cos, (1.0,), {}).node
    assert made.meta["custom"] == {"why": 1} and made.meta["from_node"][0].name == "sin"
    assert notes.get_graph_provenance_json(tracer.graph)["cos"][0]["pass_name"] == "pass"


def test_settings_of_what_is_shown(capsys, monkeypatch):
    from tessera.fx import config

    graph_module = fx.symbolic_trace(lambda x: x.sin() + 1)
    fx.Interpreter(graph_module).run(tessera.zeros(1))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(config, "disable_progress", False)
    fx.Interpreter(graph_module).run(tessera.zeros(1))
    assert "Interpreter: 4/4" in capsys.readouterr().err
    monkeypatch.setattr(config, "verbose_progress", True)
    fx.Interpreter(graph_module).run(tessera.zeros(1))
    assert "call_method[target=sin]" in capsys.readouterr().err
    assert "#" in graph_module.print_readable(print_output=False)
    monkeypatch.setattr(config, "do_not_emit_stack_traces", True)
    assert "#" not in graph_module.print_readable(print_output=False)


def test_places_of_new_nodes():
    def build(steps):
        graph = fx.symbolic_trace(lambda x: tessera.relu(x) * 2).graph
        make = lambda *names: [graph.create_node("call_function", tessera.ones, (2,), name=n) for n in names]
        steps(graph, list(graph.nodes), make)
        return [n.name for n in graph.nodes]

    def in_blocks(graph, nodes, make):
        with graph.inserting_after(nodes[0]):
            make("a")
            with graph.inserting_before(nodes[2]) as nothing:
                make("b", "c")
            make("d")
        make("e")
        assert nothing is None

    def from_the_call_on(graph, nodes, make):
        graph.inserting_before(nodes[-1])
        make("a", "b")
        graph.inserting_after(nodes[0])
        made = make("c")
        graph.inserting_after(made[0])
        make("d")

    def at_the_ends(graph, nodes, make):
        with graph.inserting_before():
            make("a", "b")
        with graph.inserting_after():
            make("c", "d")

    def behind_one_that_goes(graph, nodes, make):
        with graph.inserting_after(make("a")[0]):
            graph.erase_node(list(graph.nodes)[-1])
            make("b")

    assert build(in_blocks) == ["x", "d", "a", "relu", "b", "c", "mul", "output", "e"]
    assert build(from_the_call_on) == ["x", "c", "d", "relu", "mul", "a", "b", "output"]
    assert build(at_the_ends) == ["b", "a", "x", "relu", "mul", "output", "c", "d"]
    assert build(behind_one_that_goes) == ["x", "relu", "mul", "output", "b"]


def test_several_tracers_of_one_graph():
    graph = fx.Graph()
    x, y = fx.Proxy(graph.placeholder("x")), fx.Proxy(graph.placeholder("y"))
    assert x.tracer is not y.tracer
    graph.output((x * 2.0 * y**2 + tessera.sin(y)).node)
    a, b = tessera.tensor(3.0), tessera.tensor(2.0)
    assert fx.GraphModule({}, graph)(a, b) == a * 2.0 * b**2 + tessera.sin(b)
    with pytest.raises(RuntimeError, match="multiple different tracers"):
        x + fx.Proxy(fx.Graph().placeholder("z"))


def test_functions_named_as_members_of_namespaces_have_no_signatures():
    for name in dir(tessera):
        value = getattr(tessera, name)
        if callable(value):
            found = get_signature_for_torch_op(value)
            assert found is None or isinstance(found, list)
    assert tessera._VF.relu is tessera.relu
