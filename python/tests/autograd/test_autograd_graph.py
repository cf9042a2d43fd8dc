"""The graph from Python: hooks on saved tensors, members of nodes, several threads, depth, anomaly mode."""

import gc
import threading
import time
import warnings
import weakref
from collections import OrderedDict

import pytest
import tessera
from tessera.autograd import Function, backward, grad
from tessera.autograd.graph import GradientEdge, Node, get_gradient_edge, increment_version, saved_tensors_hooks

THREADS = 8


def leaf(n=3):
    return tessera.linspace(0.1, 1, n).requires_grad_()


# ---- hooks on saved tensors -----------------------------------------------------------------------------------------


def test_pack_hooks_see_the_tensors_themselves():
    a, constant = leaf(), tessera.ones(3)
    b = a * 2
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t) or t.detach(), lambda t: t):
        y = a * b * constant
    assert [t is s for t, s in zip((b, a, constant), seen)] == [True] * 3
    assert repr(seen[0]).endswith("grad_fn=<MulBackward0>)")
    seen.clear()
    y.sum().backward()
    tessera.testing.assert_close(a.grad, 4 * a.detach())


def test_results_are_packed_without_their_history():
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = leaf().exp()
    node = weakref.ref(y.grad_fn)
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    del y
    assert node() is None  # hooks that keep what they get make no cycle


def test_what_was_packed_is_not_kept():
    a = leaf()
    constant = tessera.ones(3)
    kept = weakref.ref(constant)
    with saved_tensors_hooks(lambda t: t.tolist(), tessera.tensor):
        y = a * constant
    del constant
    gc.collect()
    assert kept() is None
    y.sum().backward()
    assert a.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("where", ["pack", "unpack"])
def test_hooks_that_raise(where):
    def fail(_):
        raise KeyError(where)

    a = leaf()
    with pytest.raises(KeyError, match=where):
        with saved_tensors_hooks(fail if where == "pack" else (lambda t: t), fail):
            y = a.exp()
        y.sum().backward()
    assert a.grad is None
    a.exp().sum().backward()  # nothing of the hooks is left
    saved = a.exp().grad_fn._raw_saved_result
    with pytest.raises(KeyError):
        saved.register_hooks(fail, fail)
    assert saved.unpack_hook is None
    tessera.testing.assert_close(saved.unpack(), a.exp())


def test_hooks_that_write_to_what_they_get():
    with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t), pytest.raises(RuntimeError, match="in place"):
        leaf().exp()


def test_one_saved_tensor():
    a = leaf()
    y = a.exp()
    saved = y.grad_fn._raw_saved_result
    assert tessera.equal(saved.data, y)
    assert saved.unpack_hook is None

    def unpack(text):
        return tessera.zeros(3)

    saved.register_hooks(lambda t: "packed", unpack)
    assert (saved.data, saved.unpack_hook) == ("packed", unpack)
    assert saved.unpack().grad_fn is y.grad_fn
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert a.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="after it has been freed"):
        saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="second time"):
        saved.unpack()
    assert isinstance(saved, tessera.autograd.SavedTensor)


def test_saved_tensors_are_given_away_on_request():
    class Double(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert len(ctx.saved_tensors) == 1
            again.append(pytest.raises(RuntimeError, getattr, ctx, "saved_tensors"))
            return g * 2

    again = []
    Double.apply(leaf()).sum().backward()
    assert "can be read once" in str(again[0].value)
    Double.clear_saved_tensors_on_access = False
    with pytest.raises(pytest.fail.Exception):  # it is there the second time as well
        Double.apply(leaf()).sum().backward()


# ---- nodes and edges ------------------------------------------------------------------------------------------------


def test_members_of_nodes():
    y = leaf().exp()
    node = y.grad_fn
    assert isinstance(node, Node)
    assert node.requires_grad
    assert {"name", "metadata", "next_functions", "register_hook", "register_prehook"} <= set(dir(Node)) & set(
        dir(node)
    )
    seen = []
    node._register_hook_dict(OrderedDict({1: lambda g: seen.append(g.tolist())}))
    y.sum().backward()
    assert seen == [[1, 1, 1]]
    with pytest.raises(TypeError, match="dictionary"):
        node._register_hook_dict(3)


def test_inputs_come_in_any_iterable():
    layer = tessera.nn.Linear(2, 1)
    for inputs in (layer.parameters(), dict(layer.named_parameters()).values(), iter([layer.weight, layer.bias])):
        weight, bias = grad(layer(tessera.ones(1, 2)).sum(), inputs)
        assert weight.tolist() == [[1, 1]] and bias.tolist() == [1]
    layer(tessera.ones(1, 2)).sum().backward(inputs=(p for p in [layer.bias]))
    assert layer.weight.grad is None and layer.bias.grad.tolist() == [1]


def test_ends_that_are_no_tensors():
    x = leaf()
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got str"):
        grad(y, "x")
    with pytest.raises(TypeError, match="all outputs have to be Tensors or GradientEdges, but got str"):
        grad("y", x)
    with pytest.raises(TypeError, match="all tensors have to be"):
        backward(3)
    with pytest.raises(ValueError, match="batch"):
        grad(y, x, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="element of the iterable to be a tensor, got int"):
        increment_version([x.detach(), 1])
    assert x._version == 0


def test_edges_as_ends():
    x = leaf()
    mid = x * 3
    y = mid * 2
    at_y, at_mid, at_x = map(get_gradient_edge, (y, mid, x))
    ones = tessera.ones(3)
    assert [g.tolist() for g in grad(at_y, (at_mid, at_x), ones, retain_graph=True)] == [[2, 2, 2], [6, 6, 6]]
    backward((at_y,), (ones,), inputs=[at_x])
    assert x.grad.tolist() == [6, 6, 6]
    unused = get_gradient_edge(leaf() * 1)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        grad((x * 2).sum(), unused)
    assert grad((x * 2).sum(), unused, allow_unused=True) == (None,)
    assert isinstance(at_x, GradientEdge)


# ---- threads and depth ----------------------------------------------------------------------------------------------


def on_threads(function):
    """function(number) on THREADS threads; the first error is raised."""
    errors = []

    def run(i):
        try:
            function(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for error in errors:
        raise error


class Passing(Function):
    """A node whose backward is Python code, between those that are not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + 0 * x


@pytest.mark.parametrize("size", [4, 40_000])
def test_threads_share_leaves(size):
    w = tessera.ones(size, requires_grad=True)
    hooked = []
    w.register_hook(lambda g: hooked.append(1))

    def work(i):
        for _ in range(5):
            y = w
            for _ in range(10):
                y = Passing.apply(y) * 0.5
            (y + w).sum().backward()

    on_threads(work)
    assert tessera.equal(w.grad, tessera.full((size,), 2.0 * 5 * THREADS))
    assert len(hooked) == 5 * THREADS


def test_threads_share_a_graph():
    x = leaf(2000)
    y = Passing.apply(x.exp() * x).tanh().sum()
    (wanted,) = grad(y, x, retain_graph=True)
    on_threads(lambda i: tessera.testing.assert_close(grad(y, x, retain_graph=True)[0], wanted))
    freed = []

    def free(i):
        try:
            grad(y, x)
        except RuntimeError as error:
            assert "second time" in str(error)
            freed.append(i)

    on_threads(free)
    assert len(freed) < THREADS


def test_long_passes_let_other_threads_run():
    x = tessera.full((400, 400), 1e-3, requires_grad=True)
    y = x
    for _ in range(300):
        y = y @ x
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.002):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    y.sum().backward()
    end = time.perf_counter()
    done.set()
    thread.join()
    third = (end - start) / 3
    assert any(start + third < t < end - third for t in ticks)


def test_a_million_nodes():
    x = tessera.ones(1, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y + x
    (g,) = grad(y, x, retain_graph=True)
    assert g.item() == 1_000_001
    y.backward()
    assert x.grad.item() == 1_000_001
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    del y  # freed without a pass


def test_many_nodes_of_python():
    y = x = tessera.ones(1, requires_grad=True)
    for _ in range(50_000):
        y = Passing.apply(y) * 0.5
    y.backward()
    assert x.grad.item() == 1
    y = x
    for _ in range(50_000):
        y = Passing.apply(y) * 0.5
    del y


def test_passes_inside_passes():
    depth = []

    class Nested(Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.level = level
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            depth.append(ctx.level)
            if ctx.level < 20:
                with tessera.enable_grad():
                    inner = x.detach().requires_grad_()
                    Nested.apply(inner, ctx.level + 1).sum().backward()
                    assert inner.grad.tolist() == [2, 2, 2]
            return g * 2, None

    x = leaf()
    Nested.apply(x, 0).sum().backward()
    assert depth == list(range(21))
    assert x.grad.tolist() == [2, 2, 2]


def test_thousands_of_passes_inside_of_each_other():
    class Inward(Function):
        @staticmethod
        def forward(ctx, x, left):
            ctx.left = left
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.left == -1:
                raise KeyError("innermost")
            if ctx.left:
                with tessera.enable_grad():
                    inner = tessera.ones(1, requires_grad=True)
                    Inward.apply(inner, ctx.left - 1 if ctx.left > 0 else ctx.left + 1).backward()
                    g = g + inner.grad
            return g, None

    x = tessera.ones(1, requires_grad=True)
    Inward.apply(x, 3000).backward()
    assert x.grad.item() == 3001
    with pytest.raises(KeyError, match="innermost"):
        Inward.apply(x, -200).backward()
    assert tessera._C._current_graph_task_id() == -1


def test_multithreading_switch():
    assert tessera._C._is_multithreading_enabled()
    with tessera.autograd.set_multithreading_enabled(False):
        assert not tessera._C._is_multithreading_enabled()
        (leaf() * 2).sum().backward()
    assert tessera._C._is_multithreading_enabled()


# ---- anomaly mode ---------------------------------------------------------------------------------------------------


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise ValueError("on purpose")


def messages(function, error):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(error) as raised:
            function()
    return str(raised.value), [str(w.message) for w in caught if "Anomaly Detection has been" not in str(w.message)]


def test_anomaly_mode_shows_where_the_forward_call_was():
    def run():
        with tessera.autograd.detect_anomaly():
            the_place = Fails.apply(leaf())
            the_place.sum().backward()

    text, shown = messages(run, ValueError)
    assert text == "on purpose"
    assert len(shown) == 1
    assert shown[0].startswith("Error detected in FailsBackward. Traceback of forward call that caused the error:\n")
    assert "the_place = Fails.apply(leaf())" in shown[0]


def test_anomaly_mode_without_a_recorded_forward_call():
    y = Fails.apply(leaf()).sum()

    def run():
        with tessera.autograd.set_detect_anomaly(True):
            y.backward()

    _, shown = messages(run, ValueError)
    assert "No forward pass information available" in shown[0]


def test_anomaly_mode_finds_nan_unless_told_not_to():
    def run(check_nan):
        with tessera.autograd.detect_anomaly(check_nan=check_nan):
            (tessera.zeros(1, requires_grad=True) * 0).sqrt().sum().backward()

    text, shown = messages(lambda: run(True), RuntimeError)
    assert text == "Function 'MulBackward0' returned nan values in its 0th output."
    assert "Traceback of forward call" in shown[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(False)


def test_anomaly_mode_names_what_led_to_a_second_pass():
    def run():
        with tessera.autograd.detect_anomaly():
            x = leaf()
            scale = leaf()

            class Inner(Function):
                @staticmethod
                def forward(ctx, v, s):
                    ctx.save_for_backward(s)
                    return v * s

                @staticmethod
                def backward(ctx, g):
                    (s,) = ctx.saved_tensors
                    return Fails.apply(g * s), None

            (g,) = grad(Inner.apply(x, scale).sum(), x, create_graph=True)
            g.sum().backward()

    _, shown = messages(run, ValueError)
    assert "Error detected in FailsBackward" in shown[0]
    assert "Previous calculation was induced by InnerBackward" in shown[1]


def test_anomaly_mode_is_of_all_threads():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tessera.autograd.detect_anomaly():
            seen = []
            thread = threading.Thread(target=lambda: seen.append(tessera.is_anomaly_enabled()))
            thread.start()
            thread.join()
    assert seen == [True]
    assert not tessera.is_anomaly_enabled()


def test_quotients_may_be_changed_in_place():
    a, b = tessera.ones(2, requires_grad=True), tessera.full((2,), 2.0, requires_grad=True)
    y = a / b
    y += 1
    y.sum().backward()
    assert a.grad.tolist() == [0.5, 0.5] and b.grad.tolist() == [-0.25, -0.25]
    x = a * 1
    x /= b
    x.sum().backward()
    assert b.grad.tolist() == [-0.5, -0.5]
