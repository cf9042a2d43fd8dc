"""make_fx: the operators that a function runs, backward passes included."""

import operator

import pytest
import tessera
from tessera import nn
from tessera.fx.experimental.proxy_tensor import DecompositionInterpreter, get_proxy_mode, make_fx
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.utils._python_dispatch import TorchDispatchMode

aten = tessera.ops.aten


def targets(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def test_operators_and_numbers():
    traced = make_fx(lambda x: x.sin().sum() + 1)(tessera.ones(2))
    assert targets(traced) == [aten.sin.default, aten.sum.default, aten.add.Tensor]
    (add,) = traced.graph.find_nodes(op="call_function", target=aten.add.Tensor)
    assert add.args[1] == 1 and type(add.args[1]) is int and not add.kwargs
    x = tessera.tensor([0.5, 2.0])
    assert tessera.equal(traced(x), x.sin().sum() + 1)


def test_a_backward_pass():
    weights = [tessera.randn(4, 3, requires_grad=True), tessera.randn(2, 4, requires_grad=True)]

    def gradients(weights, x):
        return tessera.autograd.grad(
            nn.functional.linear(tessera.tanh(nn.functional.linear(x, weights[0])), weights[1]).sum(), weights
        )

    traced = make_fx(gradients)(weights, tessera.randn(5, 3))
    assert aten.tanh_backward.default in targets(traced)
    assert not [n for n in traced.graph.nodes if n.op == "get_attr"]  # what autograd saved is known
    x = tessera.randn(6, 3)[:5]
    for got, expected in zip(traced(weights, x), gradients(weights, x), strict=True):
        assert tessera.equal(got, expected)


def test_writes_and_several_results():
    def function(x):
        y = x.clone()
        y.add_(1)
        first, second = y.split(2, dim=1)
        largest, at = tessera.max(first, 1)
        return {"a": largest * second[:, 0], "at": at, "y": y}

    traced = make_fx(function)(tessera.randn(3, 4))
    x = tessera.randn(3, 4)
    got, expected = traced(x), function(x)
    assert all(tessera.equal(got[k], expected[k]) for k in expected)
    assert targets(traced).count(operator.getitem) == 4


def test_constants_and_parameters():
    layer, shift = nn.Linear(3, 3), tessera.arange(3.0)
    traced = make_fx(lambda x: layer(x) + shift)(tessera.randn(2, 3))
    assert sorted(n.target.rstrip("01") for n in traced.graph.nodes if n.op == "get_attr") == [
        "_param_constant",
        "_param_constant",
        "_tensor_constant",
    ]
    x = tessera.randn(2, 3)
    assert tessera.equal(traced(x), layer(x) + shift)


def test_decompositions():
    table = {aten.relu.default: lambda x: tessera.where(x > 0, x, 0)}
    traced = make_fx(lambda x: tessera.relu(x) + 1, table)(tessera.randn(3))
    assert aten.relu.default not in targets(traced)
    graph = Graph()
    run = DecompositionInterpreter(make_fx(tessera.relu)(tessera.randn(3)), graph, table)
    x = tessera.tensor([-1.0, 2.0])
    assert run.run(x).tolist() == [0.0, 2.0]
    assert GraphModule(nn.Module(), graph)(x).tolist() == [0.0, 2.0]


def test_no_mode_stays_after_an_error():
    with pytest.raises(ZeroDivisionError):
        make_fx(lambda x: x / (1 // 0))(tessera.ones(1))
    assert get_proxy_mode() is None


def test_what_is_refused():
    with pytest.raises(ValueError, match="tracing_mode"):
        make_fx(tessera.sin, tracing_mode="later")
    with pytest.raises(NotImplementedError, match="pre_dispatch"):
        make_fx(tessera.sin, pre_dispatch=True)


def test_dispatch_sees_calls_as_they_were_written():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, args[1:], kwargs))
            return func(*args, **kwargs)

    x = tessera.ones(2, 2)
    with Watch():
        x + 2
        tessera.add(x, 2.5, alpha=3)
        x.sum(0, keepdim=True)
        tessera.argmax(x)
    assert seen == [
        (aten.add.Tensor, (2,), {}),
        (aten.add.Tensor, (2.5,), {"alpha": 3}),
        (aten.sum.dim_IntList, ([0], True), {}),
        (aten.argmax.default, (), {}),
    ]
