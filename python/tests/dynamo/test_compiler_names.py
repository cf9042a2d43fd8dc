"""torch.compile's arguments and errors, torch.compiler, and the names of torch._dynamo that libraries use."""

import os
import pickle
import subprocess
import sys
import warnings

import pytest
import tessera
from tessera import _dynamo, compiler
from tessera._dynamo.testing import CompileCounter, CompileCounterWithBackend
from tessera._functorch.aot_autograd import aot_function, aot_module
from tessera._functorch.compilers import make_boxed_func, nop
from tessera._functorch.partitioners import default_partition, min_cut_rematerialization_partition

X = tessera.arange(4.0) / 3


@pytest.fixture(autouse=True)
def _fresh():
    compiler.reset()
    yield
    compiler.reset()


def plus(x):
    return x.sin() + 1


def test_decorators():
    @tessera.compile
    def first(x):
        "a doc"
        return x + 1

    @tessera.compile(backend="eager", fullgraph=True)
    def second(x):
        return x + 1

    assert first(X).tolist() == second(X).tolist() == (X + 1).tolist()
    assert first.__name__ == "first" and first.__doc__ == "a doc"
    assert tessera.compile(plus, disable=True) is plus
    assert compiler.compile(plus, backend="eager")(X).tolist() == plus(X).tolist()


def test_bad_arguments():
    with pytest.raises(_dynamo.exc.InvalidBackend, match="no_such_backend"):
        tessera.compile(plus, backend="no_such_backend")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        tessera.compile(plus, mode="default", options={"debug": True})
    with pytest.raises(RuntimeError, match="Unrecognized mode=fastest"):
        tessera.compile(plus, mode="fastest")
    with pytest.raises(RuntimeError, match="no_such_option"):
        tessera.compile(plus, options={"no_such_option": 1})
    with pytest.raises(AssertionError, match="callable"):
        tessera.compile(3)


def test_what_backends_get():
    got = []

    def backend(module, inputs, *, mode=None, options=None):
        got.append((module, inputs, mode, options))
        return module.forward

    compiled = tessera.compile(plus, backend=backend, options={"level": 3})
    assert compiled(X).tolist() == plus(X).tolist()
    tessera.compile(plus, backend=backend, mode="fast")(X)
    (module, inputs, mode, options), second = got
    assert isinstance(module, tessera.fx.GraphModule) and inputs[0] is X and mode is None and options == {"level": 3}
    assert second[2] == "fast"
    assert "def forward(self, L_x_" in module.code and module(X)[0].tolist() == plus(X).tolist()

    def bad(module, inputs):
        raise ValueError("no such graph")

    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="no such graph"):
        tessera.compile(plus, backend=bad)(X)
    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="return a callable"):
        tessera.compile(plus, backend=lambda module, inputs: 3)(X)


def test_registered_backends():
    counter = CompileCounterWithBackend("eager")
    _dynamo.register_backend(counter, name="counted_in_a_test")
    try:
        assert "counted_in_a_test" in compiler.list_backends() and "inductor" in compiler.list_backends()
        assert "eager" in _dynamo.list_backends(None) and "eager" not in _dynamo.list_backends()
        tessera.compile(plus, backend="counted_in_a_test")(X)
        assert counter.frame_count == 1 and counter.op_count == 2 and len(counter.graphs) == 1
    finally:
        _dynamo.backends.registry._backends.pop("counted_in_a_test")


def test_is_compiling():
    def f(x):
        return x + 1 if compiler.is_compiling() and _dynamo.is_compiling() else x - 1

    assert not compiler.is_compiling()
    assert tessera.compile(f, backend="eager", fullgraph=True)(X).tolist() == (X + 1).tolist()
    assert f(X).tolist() == (X - 1).tolist()


def test_disable():
    @compiler.disable(reason="a good one")
    def kept_out(x):
        assert not compiler.is_compiling()
        return inner(x) * 2

    counter = CompileCounter()
    inner = tessera.compile(plus, backend=counter)

    def f(x):
        return kept_out(x + 1) + 1

    assert tessera.compile(f, backend=counter)(X).tolist() == f(X).tolist()
    assert counter.frame_count == 2  # before and behind the call; not inside
    with pytest.raises(_dynamo.exc.Unsupported, match="a good one"):
        tessera.compile(f, backend="eager", fullgraph=True)(X)


def test_stances():
    counter = CompileCounter()
    f = tessera.compile(plus, backend=counter)
    with compiler.set_stance("force_eager"):
        f(X)
    assert counter.frame_count == 0
    f(X)
    with compiler.set_stance("eager_on_recompile"):
        assert f(X.double()).dtype is tessera.float64
    with compiler.set_stance("fail_on_recompile"):
        f(X)
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            f(X.double())
    assert counter.frame_count == 1
    other = CompileCounter()
    with compiler.set_stance("default", force_backend=other):
        f(X)
    assert other.frame_count == 1 and counter.frame_count == 1
    with compiler.set_stance("eager_then_compile"):
        g = tessera.compile(lambda x: x + 3, backend=counter)
        g(X)
        assert counter.frame_count == 1
        g(X)
    assert counter.frame_count == 2


def test_marks():
    @compiler.allow_in_graph
    def whole(x):
        return x.numpy().sum() * x if not tessera._subclasses.fake_tensor.is_fake(x) else x.clone()

    def calls_whole(x):
        return whole(x) + 1

    counter = CompileCounterWithBackend("eager")
    compiled = tessera.compile(calls_whole, backend=counter, fullgraph=True)
    assert compiled(X).tolist() == calls_whole(X).tolist() and counter.op_count == 2

    asked = []

    @compiler.assume_constant_result
    def constant():
        asked.append(1)
        return 3

    compiled = tessera.compile(lambda x: x * constant(), backend="eager", fullgraph=True)
    assert compiled(X).tolist() == compiled(X).tolist() == (X * 3).tolist() and asked == [1]

    import statistics

    @compiler.substitute_in_graph(statistics.fmean, skip_signature_check=True)
    def fmean(data):
        return sum(data) / len(data)

    assert fmean([1, 2]) == 1.5
    compiled = tessera.compile(lambda x: x * statistics.fmean([1, 2, 3]), backend="eager", fullgraph=True)
    assert compiled(X).tolist() == (X * 2.0).tolist()

    _dynamo.disallow_in_graph(tessera.tan)
    try:
        counter = CompileCounter()
        f = lambda x: (x + 1).tan() + tessera.tan(x + 1)
        assert tessera.compile(f, backend=counter)(X).tolist() == f(X).tolist() and counter.frame_count == 2
    finally:
        _dynamo._builtins.SPECIAL.pop(tessera.tan)


def test_graph_break_and_explain():
    def f(x):
        x = x + 1
        _dynamo.graph_break()
        return x * 2

    f(X)
    found = _dynamo.explain(f)(X)
    assert found.graph_count == 2 and found.graph_break_count == 1 and found.op_count == 2
    assert "graph_break" in found.break_reasons[0].reason and found.break_reasons[0].user_stack[0].name == "f"
    assert "Graph Count: 2" in str(found) and len(found.out_guards) > 0
    with pytest.raises(_dynamo.exc.Unsupported, match="graph_break"):
        _dynamo.optimize("eager", nopython=True)(f)(X)


def test_export():
    def f(a, d, k=2):
        return {"s": a + d["x"] * k, "t": (a, 3)}

    module, guards = _dynamo.export(f, X, {"x": X * 2}, k=3)
    got = module(X + 1, {"x": X}, k=3)
    assert got["s"].tolist() == (X + 1 + X * 3).tolist() and got["t"][1] == 3 and len(guards) > 0
    layer = tessera.nn.Linear(4, 2)
    result = _dynamo.export(layer, aten_graph=True)(X)
    assert tessera.equal(result.graph_module(X), layer(X))
    assert _dynamo.export(lambda x: x.sum().item())(X).graph_module(X * 2) == (X * 2).sum().item()
    with pytest.raises(_dynamo.exc.Unsupported, match=r"Tensor\.numpy"):
        _dynamo.export(lambda x: x.numpy().sum())(X)


def test_counters_and_limits():
    def f(x, k):
        return x + len(k)

    compiled = tessera.compile(f, backend="eager")
    assert not _dynamo.utils.counters["stats"]
    compiled(X, "k")
    assert _dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert _dynamo.config.cache_size_limit == _dynamo.config.recompile_limit == compiler.config.recompile_limit == 8
    with compiler.config.patch(recompile_limit=3):
        assert _dynamo.config.cache_size_limit == 3
    with _dynamo.utils.disable_cache_limit():
        for k in range(12):
            compiled(X, "k" * k)
    assert _dynamo.utils.counters["stats"]["unique_graphs"] == 12
    adds = tessera.compile(lambda x, k: x + k, backend="eager")  # a number that differs becomes a symbol
    assert [adds(X, k).tolist() == (X + k).tolist() for k in range(12)] == [True] * 12
    assert _dynamo.utils.counters["stats"]["unique_graphs"] <= 16
    with pytest.raises(AttributeError, match="no_such_setting"):
        _dynamo.config.no_such_setting = 1
    with pytest.raises(AttributeError, match="no_such_setting"):
        _dynamo.config.patch(no_such_setting=1)


def test_guard_filters():
    space = {"scale": 2.0}
    exec("def f(x):\n    return x * scale\n", space)
    options = {"guard_filter_fn": compiler.skip_guard_on_globals_unsafe}
    compiled = tessera.compile(space["f"], backend="eager", options=options)
    first = compiled(X).tolist()
    space["scale"] = 3.0
    assert compiled(X).tolist() == first


def test_marks_of_tensors():
    _dynamo.mark_dynamic(X, 0)
    _dynamo.maybe_mark_dynamic(X, -1)
    _dynamo.mark_static(X, [0])
    _dynamo.mark_static_address(X)
    with pytest.raises(IndexError, match="dimension 3"):
        _dynamo.mark_dynamic(X, 3)
    with pytest.raises(TypeError, match="mark_static expects"):
        _dynamo.mark_static(3)


def test_modules_are_pickled_and_found():
    layer = tessera.nn.Linear(2, 2)
    compiled = pickle.loads(pickle.dumps(tessera.compile(layer, backend="eager")))
    assert isinstance(compiled, _dynamo.eval_frame.OptimizedModule)
    assert tessera.equal(compiled(tessera.ones(2)), layer(tessera.ones(2)))
    assert compiled.in_features == 2 and [n for n, _ in compiled.named_children()] == ["_orig_mod"]
    with pytest.raises(AttributeError, match="no_such"):
        compiled.no_such
    compiled.load_state_dict(tessera.compile(tessera.nn.Linear(2, 2)).state_dict())
    assert not any(p is q for p, q in zip(compiled.parameters(), layer.parameters()))


def test_logs(caplog):
    tessera._logging.set_logs(graph_breaks=True, recompiles=True, graph_code=True, guards=True)
    try:
        with caplog.at_level("DEBUG", logger="tessera"):
            f = tessera.compile(lambda x: x + 1 if x.sum() > 0 else x, backend="eager")
            f(X)
            f(X.double())
    finally:
        tessera._logging.set_logs()
    text = caplog.text
    assert "Graph break" in text and "test_compiler_names.py" in text and "TENSOR_MATCH" in text
    assert "Recompiling function <lambda>" in text and "torch.float32" in text.replace("tessera.", "torch.")
    assert "TRACED GRAPH" in text and "L_x_" in text


def loss(a, b):
    return {"y": (a * b).sin().exp(), "k": a + 1}


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_aot_function(partition):
    graphs = []

    def keep(module, inputs):
        assert len([n for n in module.graph.nodes if n.op == "placeholder"]) == len(inputs)
        graphs.append(module)
        return module

    f = aot_function(loss, keep, partition_fn=partition)
    a, b = X.clone().requires_grad_(), X + 1
    for _ in range(2):
        a.grad = None
        out = f(a, b)
        (out["y"].sum() + out["k"].sum()).backward()
    got, a.grad = a.grad, None
    wanted = loss(a, b)
    (wanted["y"].sum() + wanted["k"].sum()).backward()
    tessera.testing.assert_close(got, a.grad, rtol=0, atol=0)
    tessera.testing.assert_close(out, wanted, rtol=0, atol=0)
    forward, backward = graphs
    saved = len(forward.graph.output_node().args[0]) - 2
    assert saved == len([n for n in backward.graph.nodes if n.op == "placeholder"]) - 2
    assert ("aten.cos" in backward.code) is ("aten.sin" in backward.code) is (partition is not default_partition)


def test_aot_module():
    layer = tessera.nn.Sequential(tessera.nn.Linear(4, 3), tessera.nn.BatchNorm1d(3), tessera.nn.Tanh())
    compiled = aot_module(layer.eval(), nop)
    x = tessera.randn(2, 4)
    assert tessera.equal(compiled(x), layer(x)) and len(list(compiled.parameters())) == 4
    layer.train()
    compiled(x).sum().backward()
    assert layer[0].weight.grad is not None and layer[1].num_batches_tracked == 1


def test_small_helpers():
    assert _dynamo.utils.is_compile_supported("cpu") and not _dynamo.utils.is_compile_supported("nowhere")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            _dynamo.utils.warn_once("once in a test")
    assert len(seen) == 1
    assert _dynamo.utils.same({"a": X}, {"a": X + 1e-7}) and not _dynamo.utils.same([X], [X + 1])
    with _dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex():
        rows = tessera.func.vmap(lambda i: X[i])(tessera.tensor([2, 0]))
    assert rows.tolist() == X[[2, 0]].tolist()
    assert compiler.save_cache_artifacts() is None and compiler.load_cache_artifacts(b"") is None
    with pytest.raises(TypeError, match="expected bytes"):
        compiler.load_cache_artifacts("a")
    assert "max_autotune" in tessera._inductor.list_options()
    assert tessera._inductor.list_mode_options("max-autotune")["max_autotune"] is True
    with pytest.raises(_dynamo.exc.UserError, match="tan"):
        _dynamo.forbid_in_graph(tessera.tan)
        try:
            tessera.compile(lambda x: tessera.tan(x), backend="eager")(X)
        finally:
            _dynamo._builtins.SPECIAL.pop(tessera.tan)


def test_settings_about_errors(caplog):
    def bad(module, inputs):
        raise ValueError("no such graph")

    with _dynamo.config.patch(suppress_errors=True):
        assert tessera.compile(plus, backend=bad)(X).tolist() == plus(X).tolist()
    assert "no such graph" in caplog.text
    f = tessera.compile(plus, backend="eager")
    f(X)
    with _dynamo.config.patch("error_on_recompile", True):
        f(X)
        with pytest.raises(_dynamo.exc.RecompileError, match=r"(?s)Recompiling function plus.*tensor 'x' \w+ mismatch"):
            f(X.double())


def test_breaks_say_what_why_and_what_to_do():
    def branch(x):
        return x if x.sum() > 0 else -x

    def outside(x):
        print("here")
        return x

    def asked(x):
        _dynamo.graph_break("for a reason")
        return x

    def wrong(x):
        return x @ x

    titles = {
        branch: "Data-dependent branching", outside: "Failed to trace builtin operator",
        asked: r"Call to `torch._dynamo.graph_break\(\)`", wrong: "RuntimeError when making fake tensor call",
    }  # fmt: skip
    for function, title in titles.items():
        with pytest.raises(_dynamo.exc.Unsupported, match=title) as found:
            tessera.compile(function, backend="eager", fullgraph=True)(tessera.ones(2, 3))
        text = str(found.value)
        assert "  Explanation: " in text and "  Hint: " in text and "test_compiler_names.py" in text
        assert isinstance(found.value, _dynamo.exc.TorchRuntimeError) is (function is wrong)


def test_what_makes_a_function_compile_again():
    f = tessera.compile(lambda x: x + 1, backend="eager", dynamic=False)
    f(tessera.ones(2))
    with _dynamo.config.patch("error_on_recompile", True):
        for x, reason in (
            (tessera.ones(3), "size mismatch at index 0. expected 2, actual 3"),
            (tessera.ones(2).int(), "dtype mismatch. expected torch.float32, actual torch.int32"),
            (tessera.ones(2, requires_grad=True), "requires_grad mismatch. expected False, actual True"),
        ):
            with pytest.raises(_dynamo.exc.RecompileError, match=reason):
                f(x)


def test_the_class_of_compiled_modules_is_there_without_the_capture():
    """Libraries ask isinstance(model, OptimizedModule) in programs that compile nothing."""
    code = (
        "import sys, tessera\n"
        "from tessera._dynamo.eval_frame import OptimizedModule as compiled\n"
        "assert not isinstance(tessera.nn.Linear(2, 2), compiled) and 'tessera._dynamo._calls' not in sys.modules\n"
        "assert isinstance(tessera.compile(tessera.nn.Linear(2, 2)), compiled)\n"
        "assert tessera._dynamo.eval_frame.optimize is tessera._dynamo.optimize\n"
        "assert not hasattr(tessera._dynamo.eval_frame, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))


class Counting(tessera.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = tessera.nn.BatchNorm1d(2), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


def test_programs_of_torchscript_in_captured_functions():
    """They are nodes of the graph, run once a call, and may be compiled themselves."""
    x = tessera.arange(6.0).view(3, 2).requires_grad_()
    function, module, plain = tessera.jit.script(plus), tessera.jit.script(Counting()), Counting()
    counter = CompileCounter()
    compiled = tessera.compile(lambda x: function(module(x)) * 2, fullgraph=True, backend=counter)
    for calls in (1, 2):
        found, expected = compiled(x), plus(plain(x)) * 2
        assert tessera.equal(found, expected) and module.calls == calls
        for a, b in zip(module.state_dict().values(), plain.state_dict().values()):
            assert tessera.equal(a, b)
        for a, b in zip(*(tessera.autograd.grad(y.sin().sum(), x) for y in (found, expected))):
            assert tessera.equal(a, b)
    assert counter.frame_count == 1 and counter.op_count == 3
    assert tessera.equal(tessera.compile(function, fullgraph=True)(x), plus(x))
    assert tessera.equal(tessera.compile(module, fullgraph=True)(x), plain(x))
    traced = tessera.jit.trace(lambda x: (x, x + 1), x)
    assert tessera.equal(tessera.compile(lambda x: traced(x)[1], fullgraph=True)(x), x + 1)


def test_all_names_of_the_module_are_there():
    assert all(hasattr(_dynamo, name) for name in _dynamo.__all__)
    assert _dynamo.is_dynamo_supported() is True


def test_ends_of_graphs_that_are_errors():
    from tessera._dynamo import error_on_graph_break, graph_break

    def inner(x, flag):
        with error_on_graph_break(flag):
            x = x + 1
            graph_break()
            x = x * 2
        return x

    @error_on_graph_break(True)
    def strict(x):
        graph_break()
        return x + 1

    x = tessera.ones(2)
    refused = tessera._dynamo.exc.Unsupported
    assert tessera.equal(tessera.compile(inner, backend="eager")(x, False), x * 4)
    for function, args in ((inner, (x, True)), (strict, (x,)), (lambda x: strict(x) + 1, (x,))):
        with pytest.raises(refused, match="graph_break"):
            tessera.compile(function, backend="eager")(*args)
        assert tessera._dynamo._registry.STATE.error_on_break is False
    with pytest.raises(refused):  # fullgraph goes first
        tessera.compile(inner, backend="eager", fullgraph=True)(x, False)

    def breaks(x):
        graph_break()
        return x

    call = tessera.compile(breaks, backend="eager")
    with error_on_graph_break(True), pytest.raises(refused):
        call(x)
    assert call(x) is x
    with pytest.raises(TypeError, match="expected a bool"):
        error_on_graph_break(1)


def test_bounds_of_marked_dimensions():
    counter = tessera._dynamo.testing.CompileCounter()
    call = tessera.compile(lambda x: x * 2, backend=counter)
    seen = []
    for n in (4, 6, 9, 20, 2):
        x = tessera.ones(n)
        if n == 4:
            tessera._dynamo.mark_dynamic(x, 0, min=3, max=6)
        call(x)
        seen.append(counter.frame_count)
    assert seen == [1, 1, 2, 2, 2]
    kind = tessera.fx.experimental.symbolic_shapes.ConstraintViolationError
    for function, size, text in (
        (lambda x: x, 9, "not in range"),
        (lambda x: x[4:] if len(x) > 4 else x, 5, "allowed"),
    ):
        x = tessera.ones(size)
        tessera._dynamo.mark_dynamic(x, 0, min=3, max=6)
        with pytest.raises(kind, match=text):
            tessera.compile(function, backend="eager")(x)


def test_aot_autograd_makes_backends_of_compilers():
    from tessera._dynamo.backends.common import aot_autograd

    graphs = []

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return make_boxed_func(gm.forward)

    compiled = tessera.compile(lambda x: x.sin().relu(), backend=aot_autograd(fw_compiler=compiler))
    x = tessera.linspace(-1, 1, 4, requires_grad=True)
    result = compiled(x)
    result.sum().backward()
    assert len(graphs) == 2 and "CompiledFunctionBackward" in repr(result)
    assert tessera.equal(x.grad, x.detach().cos() * (x.detach() > 0))
    with pytest.raises(TypeError, match="fw_compiler"):
        aot_autograd()
