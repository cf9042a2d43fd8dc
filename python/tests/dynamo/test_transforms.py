"""Transforms of functions in what is compiled whole: one node each, with the values and gradients of plain calls."""

import operator

import pytest

import tessera
from tessera import func, nn
from tessera._dynamo.testing import CompileCounterWithBackend, EagerAndRecordGraphs
from tessera.export import Dim, export
from tessera.testing import assert_close
from tessera.utils._pytree import tree_leaves

NET = tessera.nn.Sequential(tessera.nn.Linear(4, 5), tessera.nn.Tanh(), tessera.nn.Linear(5, 2))
NORM = tessera.nn.BatchNorm1d(4)
BEFORE = func.vmap(lambda a, w: a * w, in_dims=(0, None))


def scaled(a, k=2.0):
    return (a * k).sin()


def loss(parameters, a):
    return func.functional_call(NET, parameters, (a,)).sin().sum()


def samples(x, w):
    return func.vmap(func.grad(loss), in_dims=(None, 0))(dict(NET.named_parameters()), x)


def normalized(x, w):
    stats = {"running_mean": w * 0.1, "running_var": w * w + 1}
    return func.functional_call(NORM, stats, (x,)), stats["running_mean"]


CASES = {
    "vmap": lambda x, w: func.vmap(lambda a: (a * w).sin() * a.shape[0])(x),
    "vmap of a builtin": lambda x, w: func.vmap(tessera.dot, in_dims=(0, None))(x, w),
    "vmap of trees": lambda x, w: func.vmap(lambda a: {"a": a.sin(), "b": (a, a + 1)}, out_dims=1)(x.t()),
    "vmap with words": lambda x, w: func.vmap(scaled)(x, k=3.0),
    "vmap in pieces": lambda x, w: func.vmap(lambda a: a.sin(), chunk_size=2)(x),
    "vmap in vmap": lambda x, w: func.vmap(lambda a: func.vmap(lambda e: e * a.sum() + w.sum())(a))(x),
    "made before": lambda x, w: BEFORE(x, w),
    "grad": lambda x, w: func.grad(lambda a: (a * w).sin().sum() * x.shape[0])(x),
    "grad of two": lambda x, w: func.grad(lambda a, b: (a * b).sin().sum(), argnums=(0, 1))(x, w),
    "grad and more": lambda x, w: func.grad(lambda a: (a.sin().sum(), a.cos()), has_aux=True)(x),
    "grad and value": lambda x, w: func.grad_and_value(lambda a: (a.sin().sum(), (a, 3)), has_aux=True)(x),
    "grad of grad": lambda x, w: func.grad(lambda a: func.grad(lambda b: (b**3).sum())(a).sum())(x),
    "samples": samples,
    "vjp": lambda x, w: func.vjp(lambda a: (a * w).sin(), x)[1](x),
    "vjp in vmap": lambda x, w: func.vmap(func.vjp(lambda a: a.sin(), x[0])[1])(x),
    "jvp": lambda x, w: func.jvp(lambda a: (a * w).sin(), (x,), (x + 1,)),
    "jacrev": lambda x, w: func.jacrev(lambda a, b: {"y": a * b, "z": a.sum()}, argnums=(0, 1))(x, w),
    "jacfwd": lambda x, w: func.jacfwd(lambda a: a * w)(x),
    "hessian": lambda x, w: func.hessian(lambda a: (a * w).sin().sum())(x),
    "linearize": lambda x, w: func.linearize(lambda a: (a * w).sin(), x)[1](x),
    "functionalize": lambda x, w: func.functionalize(lambda a: a.clone().add_(w).view(-1))(x),
    "functional_call": lambda x, w: func.functional_call(NET, {"0.bias": x[0].sum() * tessera.ones(5)}, x),
    "statistics": normalized,
}


def inputs(rows, wanted=False):
    tessera.manual_seed(rows)
    return [t.requires_grad_(wanted) for t in (tessera.randn(rows, 4), tessera.randn(4))]


def tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, tessera.Tensor)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CASES)
def test_compiled_whole(name, backend):
    tessera.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = tessera.compile(CASES[name], backend=counter, fullgraph=True)
    for rows in (3, 5, 6):
        plain, given = inputs(rows, True), inputs(rows, True)
        want, got = CASES[name](*plain), compiled(*given)
        assert_close(want, got)
        for tree, leaves in ((want, plain), (got, given)):
            sum(t.cos().sum() for t in tensors(tree) if t.requires_grad).backward()
            assert any(leaf.grad is not None for leaf in leaves) or name == "samples"
        for a, b in zip(plain, given):
            assert_close(a.grad, b.grad)
    assert counter.frame_count == 2  # once, and once more with the number of rows as a symbol
    tessera.compile(CASES[name], backend=(dynamic := CompileCounterWithBackend("eager")), dynamic=True)(*inputs(5))
    assert dynamic.frame_count == 1


def test_one_node_for_each_transform():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    x, w = inputs(3)
    tessera.compile(CASES["vmap"], backend=backend, fullgraph=True)(x, w)
    names = [n.target.__name__ for n in graphs[0].graph.nodes if n.op == "call_function"]
    assert names == ["transformed"]


def test_what_functions_depend_on_is_guarded():
    state = {"k": 2.0}
    x = tessera.ones(3)
    compiled = tessera.compile(lambda x: func.vmap(lambda a: a * state["k"])(x), backend="eager", fullgraph=True)
    assert compiled(x).tolist() == [2.0] * 3
    state["k"] = 4.0
    assert compiled(x).tolist() == [4.0] * 3
    of_any = tessera.compile(lambda h, x: h(x), backend="eager", fullgraph=True)
    for k in (2.0, 5.0):
        assert of_any(func.vmap(lambda a: a * k), x).tolist() == [k] * 3  # noqa: B023 - called at once
    assert of_any(func.grad(lambda a: 3 * a.sum()), x).tolist() == [3.0] * 3


def test_compiled_itself_and_returned():
    x = tessera.randn(2, 3)
    counter = CompileCounterWithBackend("eager")
    assert_close(tessera.compile(func.vmap(lambda a: a.sum()), backend=counter)(x), x.sum(1))
    assert counter.frame_count == 1
    doubled, mapped = tessera.compile(lambda x: (x * 2, func.vmap(tessera.sin, in_dims=1)), backend="eager")(x)
    assert_close(doubled, 2 * x)
    assert_close(mapped(x), x.t().sin())


def test_errors_are_those_of_plain_calls():
    x = tessera.randn(3, 2)
    for function, kind, text in (
        (lambda x: func.vmap(lambda a: a, in_dims=3)(x), ValueError, "in_dim=3"),
        (lambda x: func.grad(lambda a: a)(x), RuntimeError, "scalar tensor"),
        (lambda x: func.vmap(lambda a: a if a.sum() > 0 else -a)(x), RuntimeError, "vmap"),
    ):
        with pytest.raises(kind, match=text):
            tessera.compile(function, backend="eager")(x)
        with pytest.raises(tessera._dynamo.exc.Unsupported):
            tessera.compile(function, backend="eager", fullgraph=True)(x)


def test_tensors_do_not_leave_their_function():
    def leaks(x):
        held = []

        def body(a):
            held.append(a * 2)
            return a.sum()

        func.grad(body)(x)
        return held[0] + 1

    with pytest.raises(tessera._dynamo.exc.Unsupported, match="used behind it"):
        tessera.compile(leaks, backend="eager", fullgraph=True)(tessera.ones(3))
    assert tessera.compile(leaks, backend="eager")(tessera.ones(3)).tolist() == [3.0] * 3


@pytest.mark.parametrize("strict", [True, False])
def test_exported(strict):
    class Samples(tessera.nn.Module):
        def forward(self, x):
            return samples(x, None)

    program = export(Samples(), (tessera.randn(3, 4),), strict=strict, dynamic_shapes=({0: Dim("rows")},))
    x = tessera.randn(6, 4)
    assert_close(program.module()(x), samples(x, None))


def test_sizes_inside_of_a_transform_are_no_numbers_by_accident():
    class Derivative(tessera.nn.Module):
        def forward(self, x):
            return func.jvp(lambda a: a * a.shape[0], (x,), (x,))[1]

    x = tessera.randn(3, 4)
    with pytest.raises(tessera._dynamo.exc.UserError, match="rows"):
        export(Derivative(), (x,), dynamic_shapes=({0: Dim("rows")},))
    assert_close(export(Derivative(), (x,)).module()(x), 3 * x)


def test_the_function_of_vjp_is_a_result():
    x, w = tessera.randn(3), tessera.randn(3)
    for options in ({"fullgraph": True}, {}):
        compiled = tessera.compile(lambda x, w: func.vjp(lambda a: (a * w).sin(), x), backend="eager", **options)
        value, back = compiled(x, w)
        assert tessera.equal(value, (x * w).sin()) and tessera.equal(back(x)[0], x * (x * w).cos() * w)


def test_nodes_know_their_modules_and_layers():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3))

        def forward(self, x):
            return nn.functional.relu(self.inner(x)) + 1

    backend = EagerAndRecordGraphs()
    tessera.compile(Two(), backend=backend)(tessera.randn(2, 3))
    nodes = {n.name: n.meta for n in backend.graphs[0].graph.find_nodes(op="call_function")}
    sources = {name: meta["source_fn_stack"] for name, meta in nodes.items()}
    assert sources == {
        "linear": [("linear", nn.Linear)], "relu": [("relu", nn.functional.relu)], "add": [("add", operator.add)]
    }  # fmt: skip
    assert [kind for _, kind in nodes["linear"]["nn_module_stack"].values()] == [nn.Sequential, nn.Linear]
    assert "nn_module_stack" not in nodes["add"]
