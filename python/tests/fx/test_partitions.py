"""Parts of graphs for backends: which nodes are supported, what can be one call, orders of nodes, fake values."""

import operator

import pytest

import tessera
from tessera import nn
from tessera.fx import symbolic_trace
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
    assert [[n.name for n in p.nodes] for p in found] == [["add", "relu", "relu_1"]]  # the last sum needs the sine
    assert validate_partition(found[0].nodes)
    fused = partitioner.fuse_partitions(found)
    assert [n.target for n in fused.graph.nodes if n.op == "call_function"].count(tessera.relu) <= 1
    assert any(n.op == "call_module" for n in fused.graph.nodes) and tessera.equal(fused(x, y), around(x, y))


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
