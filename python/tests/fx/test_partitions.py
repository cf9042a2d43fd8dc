"""Parts of graphs for backends: which nodes are supported, what can be one call, orders of nodes, fake values."""

import operator

import pytest

import tessera
from tessera import nn
from tessera.fx import symbolic_trace
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.fx.passes.dialect.common.cse_pass import CSEPass
from tessera.fx.passes.fake_tensor_prop import FakeTensorProp
from tessera.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from tessera.fx.passes.operator_support import (
    OperatorSupport,
    OperatorSupportBase,
    OpSupports,
    any_chain,
    chain,
    create_op_support,
)
from tessera.fx.passes.shape_prop import ShapeProp
from tessera.fx.passes.tools_common import get_node_target, legalize_graph
from tessera.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition
from tessera.fx.passes.utils.matcher_utils import SubgraphMatcher
from tessera.utils._pytree import tree_leaves


class Some(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.target in (tessera.relu, operator.add)


def around(x, y):
    a = tessera.relu(x + y)
    return tessera.sin(a) + tessera.relu(a)  # the sine is between two that are supported


def test_partitions_leave_no_way_out_and_back():
    traced, x, y = symbolic_trace(around), tessera.randn(3), tessera.randn(3)
    partitioner = CapabilityBasedPartitioner(traced, Some())
    found = partitioner.propose_partitions()
    assert [[n.name for n in p.nodes] for p in found] == [["relu_1", "add_1"], ["add", "relu"]]
    assert all(validate_partition(p.nodes) for p in found)
    fused = partitioner.fuse_partitions(found)
    assert [n.target for n in fused.graph.nodes if n.op == "call_function"].count(tessera.relu) == 0
    assert any(n.op == "call_module" for n in fused.graph.nodes) and tessera.equal(fused(x, y), around(x, y))


def names_of_parts(function, *arguments, single=True):
    """The proposed partitions, by names, after the joined graph was found to compute the same."""
    partitioner = CapabilityBasedPartitioner(symbolic_trace(function), Sums(), single)
    found = partitioner.propose_partitions()
    names = [[n.name for n in p.nodes] for p in found]
    fused = partitioner.fuse_partitions(found)
    for got, wanted in zip(tree_leaves(fused(*arguments)), tree_leaves(function(*arguments))):
        assert tessera.equal(got, wanted)
    return names


class Sums(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.target in (operator.add, operator.getitem, tessera.ops.aten.var_mean)


def test_nodes_beside_each_other_are_one_part():
    x, y = tessera.randn(3), tessera.randn(3)
    assert names_of_parts(lambda x, y: (x + 1, y + 2), x, y) == [["add", "add_1"]]
    assert names_of_parts(lambda x, y: ((x + 1).sin() + y, y + 2), x, y) == [["add_1", "add_2"], ["add"]]

    def crossed(x, y):  # each sum alone could join either other, both at once could not
        a, b = x + 1, y + 2
        c, d = b.sin(), a.cos()
        return a + c, b + d

    assert names_of_parts(crossed, x, y) == [["add_2", "add_3"], ["add", "add_1"]]


def test_taking_results_apart_belongs_to_what_made_them():
    x = tessera.randn(4)
    alone = names_of_parts(lambda x: x.split(2)[0] + 1, x)
    assert alone == [["add"]]  # split is not supported, so its getitem stays outside

    def both(x):
        a, b = tessera.ops.aten.var_mean(x)
        return a + b

    assert names_of_parts(both, x) == [["var_mean", "getitem", "getitem_1", "add"]]


def test_each_node_is_in_one_part():
    traced = symbolic_trace(around)
    nodes = {n.name: n for n in traced.graph.nodes}
    with pytest.raises(ValueError, match="in two: .'relu'"):
        fuse_by_partitions(traced, [[nodes["add"], nodes["relu"]], [nodes["relu"]]])


def test_a_place_whose_input_needs_its_result_does_not_match():
    def pattern(a, b):
        c = tessera.relu(a)
        return c, c * b

    graph = lambda f: symbolic_trace(f).graph  # noqa: E731
    matcher = SubgraphMatcher(graph(pattern))
    circle = graph(lambda x: (lambda r: r * r.sin())(tessera.relu(x)))
    assert matcher.match(circle) == [] and len(matcher.match(graph(lambda x, y: tessera.relu(x) * y))) == 1


def test_single_nodes_and_views():
    function = lambda x: tessera.sin(tessera.relu(x).view(-1))  # noqa: E731
    views = create_op_support(lambda _, n: n.target == "view")
    support = any_chain(Some(), views)
    none = CapabilityBasedPartitioner(symbolic_trace(function), support, non_compute_ops=["view"])
    assert none.propose_partitions() == []
    alone = CapabilityBasedPartitioner(symbolic_trace(function), support, True, non_compute_ops=["view"])
    (found,) = alone.propose_partitions()
    assert found.size() == 2
    alone.remove_bookend_non_compute_ops([found])
    assert [n.name for n in found.nodes] == ["relu"]
    named = CapabilityBasedPartitioner(symbolic_trace(function), Some(), False, None, ["torch.relu"])
    assert tessera.equal(named.partition_and_fuse("part_")(-tessera.ones(2)), tessera.zeros(2))


def test_results_of_a_part():
    def function(x):
        a, b = x + 1, x * 2
        return a.sin() + b + a

    traced, x = symbolic_trace(function), tessera.randn(3)
    nodes = {n.name: n for n in traced.graph.nodes}
    fused = fuse_by_partitions(traced, [[nodes["add"], nodes["mul"]]])
    assert fused.fused_0(x)[1].equal(x * 2) and tessera.equal(fused(x), function(x))
    nodes = {n.name: n for n in symbolic_trace(function).graph.nodes}
    with pytest.raises(ValueError, match="dependency cycles"):
        fuse_by_partitions(symbolic_trace(function), [[nodes["add"], nodes["add_1"]]])


def test_tables_of_support():
    traced = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    ShapeProp(traced).propagate(tessera.ones(1, 2))
    modules, (_, linear, relu, _) = dict(traced.named_modules()), traced.graph.nodes
    name = get_node_target(modules, linear)
    assert name == "torch.nn.modules.linear.Linear"
    for allowed, supported in ((None, True), (((tessera.float32,),), True), (((tessera.float64,),), False)):
        table = OperatorSupport({name: allowed and (allowed[0] and (allowed[0],), {})})
        assert table.is_node_supported(modules, linear) is supported
        assert not table.is_node_supported(modules, relu)
    declined = chain(OperatorSupport({name: None}), OpSupports.decline_if_input_dtype(tessera.float32))
    assert not declined.is_node_supported(modules, linear)
    assert not OpSupports.decline_if_node_in_names({linear.name}).is_node_supported(modules, linear)
    with pytest.raises(AssertionError, match="a call"):
        get_node_target(modules, next(iter(traced.graph.nodes)))


def test_nodes_are_put_behind_their_arguments():
    traced = symbolic_trace(lambda x: (x + 1).sin())
    add, sin = list(traced.graph.nodes)[1:3]
    sin.append(add)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        traced.graph.lint()
    legalize_graph(traced).graph.lint()
    add.args = (sin, 1)
    with pytest.raises(RuntimeError, match="cycles"):
        legalize_graph(traced)


def test_fake_values_of_nodes():
    traced = symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert FakeTensorProp(traced).propagate(tessera.ones(5, 2)).shape == (5, 3)
    values = [n.meta["val"] for n in traced.graph.nodes]
    assert [tuple(v.shape) for v in values] == [(5, 2), (5, 3), (5, 3), (5, 3)]
    assert all(tessera._C._fake_mode_of(v) is not None for v in values)


def joined(function, *arguments, **options):
    """The operators that are left, after the joined graph was found to compute the same."""
    traced = make_fx(function)(*(a.clone() for a in arguments))
    result = CSEPass(**options)(traced)
    got, wanted = result.graph_module(*(a.clone() for a in arguments)), function(*(a.clone() for a in arguments))
    assert all(tessera.equal(g, w) for g, w in zip(got, wanted))
    return [n.name for n in result.graph_module.graph.nodes if n.op == "call_function"], result.modified


def test_common_subexpressions_are_computed_once():
    x = tessera.randn(4)
    assert joined(lambda x: (x + 1, x + 1, (x + 1) * (x + 1)), x) == (["add", "mul"], True)
    assert joined(lambda x: (x + 1, x + 1.0), x) == (["add", "add_1"], False)
    kept = joined(lambda x: (x + 1, x + 1), x, banned_ops={tessera.ops.aten.add})
    assert kept == (["add", "add_1"], False)
    random = make_fx(lambda x: (tessera.rand(3), tessera.rand(3)))(x)
    assert len(CSEPass(banned_ops=())(random).graph_module.graph.nodes) == 4


def test_what_is_written_into_is_not_joined():
    x = tessera.randn(4)

    def fresh(x):
        a, b = x + 1, x + 1
        a.view(2, 2).mul_(2)
        return a, b

    def read(x):
        before = x.sum()
        x.mul_(2)
        return before, x.sum()

    def views(x):
        x = x + 1
        a, b = x.view(2, 2), x.view(2, 2)
        a.mul_(3)
        return x, b

    assert not joined(fresh, x)[1] and not joined(read, x)[1]
    assert joined(views, x) == (["add", "view", "mul_"], True)
