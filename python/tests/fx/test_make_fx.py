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
    with pytest.raises(NotImplementedError, match="record_module_stack"):
        make_fx(tessera.sin, record_module_stack=True)


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


def before_dispatch(f, *args, **settings):
    """The trace above autograd of a function, which is checked on other numbers."""
    traced = make_fx(f, pre_dispatch=True, **settings)(*args)
    assert get_proxy_mode() is None
    others = [a + 0.25 for a in args]
    assert tessera.equal(traced(*others), f(*others))
    return traced


def test_operators_as_they_are_called():
    layer = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.LayerNorm(3))
    traced = before_dispatch(lambda x: layer(x).softmax(-1).reshape(-1)[:2], tessera.randn(2, 4))
    assert targets(traced) == [
        aten.linear.default, aten.relu.default, aten.layer_norm.default, aten.softmax.int, aten.reshape.default,
        aten.slice.Tensor,
    ]  # fmt: skip
    for mode in ("fake", "symbolic"):
        settings = dict(tracing_mode=mode, _allow_non_fake_inputs=True)
        assert aten.linear.default in targets(before_dispatch(layer, tessera.randn(2, 4), **settings))
    traced = before_dispatch(lambda x: x.reshape(x.shape[0] * 2, -1), tessera.randn(2, 4), tracing_mode="symbolic")
    assert targets(traced) == [aten.sym_size.int, operator.mul, aten.reshape.default]
    assert traced(tessera.ones(3, 4)).shape == (6, 2)


def test_grad_mode_and_autocast_are_nodes_above_autograd():
    def function(x):
        with tessera.no_grad():
            y = x.sin()
        with tessera.autocast("cpu", tessera.bfloat16):
            y = tessera.mm(y, x)
        return y * 2

    traced = before_dispatch(function, tessera.randn(3, 3))
    modes = tessera.amp.autocast_mode
    assert targets(traced) == [
        tessera._C._set_grad_enabled, aten.sin.default, tessera._C._set_grad_enabled, modes._enter_autocast,
        aten.mm.default, modes._exit_autocast, aten.mul.Tensor,
    ]  # fmt: skip
    x = tessera.randn(3, 3, requires_grad=True)
    traced(x).sum().backward()
    got, x.grad = x.grad, None
    function(x).sum().backward()
    assert tessera.equal(got, x.grad)


def test_gradients_and_branches_above_autograd():
    def gradient(x):
        x = x.clone().requires_grad_()
        return tessera.autograd.grad(tessera.nn.functional.linear(x, x).sum(), x)[0]

    assert aten.linear.default in targets(before_dispatch(gradient, tessera.randn(2, 2)))
    attend = nn.functional.scaled_dot_product_attention
    before_dispatch(lambda x: tessera.func.grad(lambda a: attend(a, a.sin(), a.cos()).sum())(x), tessera.randn(1, 3, 4))
    before_dispatch(lambda x: tessera.func.grad(lambda a: nn.functional.gelu(a @ a).norm())(x), tessera.randn(3, 3))
    before_dispatch(lambda x: tessera.func.grad(lambda a: a.sin().sum())(x), tessera.randn(3))
    before_dispatch(lambda x: tessera.vmap(lambda a: a.cumsum(0) * x)(x), tessera.randn(3, 3))
    traced = before_dispatch(
        lambda x: tessera.cond(x.sum() > 0, lambda x: x.softmax(0), lambda x: x - 1, (x,)), tessera.ones(3)
    )
    assert targets(traced.true_graph_0) == [aten.softmax.int]
    assert traced(-tessera.ones(3)).tolist() == [-2.0] * 3


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_what_the_program_makes_of_numbers_is_as_it_was_at_each_call(mode):
    def program(x):
        made = tessera.tensor([1.0, 2.0, 3.0])
        return x + made.add_(1)

    traced = make_fx(program, tracing_mode=mode)(tessera.zeros(3))
    assert [traced(tessera.zeros(3)).tolist() for _ in range(2)] == [[2.0, 3.0, 4.0]] * 2


def test_a_table_above_autograd():
    table = {aten.linear.default: lambda x, w, b=None: tessera.matmul(x, w.t())}
    traced = before_dispatch(
        lambda x: nn.functional.linear(x, x), tessera.randn(2, 2), decomposition_table=table
    )  # fmt: skip
    assert aten.matmul.default in targets(traced) and aten.linear.default not in targets(traced)


@pytest.mark.parametrize("n", [0, 1, 2, -1])
def test_a_number_that_may_be_negative_is_an_argument(n):
    x = tessera.tensor([[2.0, 1.0], [0.5, 3.0]])
    graph = make_fx(tessera.matrix_power, tracing_mode="symbolic")(x, n)
    assert tessera.allclose(graph(x, n), tessera.matrix_power(x, n))
