"""torch.compile: results as those of the function, and how many graphs it takes."""

import collections
import dataclasses
import functools
import keyword
import subprocess
import sys

import pytest
import tessera

F = tessera.nn.functional


def graphs_of(function, *calls, **options):
    """Calls a function captured and as it is, compares the results, and gives the graphs."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = tessera.compile(function, backend=backend, **options)
    for args in calls:
        wanted = function(*[a.clone() if isinstance(a, tessera.Tensor) else a for a in args])
        tessera.testing.assert_close(compiled(*args), wanted, rtol=0, atol=0)
    return graphs


X = tessera.arange(4.0) / 3


def lambda_(x):
    return (lambda y: y.sin() + y.cos())(x)


def loop(x):
    for i in range(4):
        x = x + i
    return [x * k for k in range(3)], {"a": x, "b": (x, 1)}


def closure(x):
    def g(y, *more, k=2):
        return y + x + k + len(more)

    return g(x * 2, 1, 2, k=3)


def generator(x):
    return sum(y * 2 for y in [x, x + 1]) + any(i > 2 for i in range(5))


def exceptions(x):
    try:
        {}["a"]
    except KeyError:
        x = x + 1
    finally:
        x = x * 2
    try:
        raise ValueError("a")
    except (TypeError, ValueError):
        return x - 1


def grad_modes(x):
    with tessera.no_grad():
        y = x * 2
        with tessera.enable_grad():
            y = y + x
    return y, tessera.is_grad_enabled()


def containers(x):
    d = collections.OrderedDict(a=x, b=1)
    d.update(c=[x + 1])
    d["c"].append(d.pop("a"))
    first, *rest = d["c"]
    assert [*zip(range(2), "ab")] == [(0, "a"), (1, "b")] and f"{d['b']:02d}" == "01" and max(1, 2) == 2
    return {k: v for k, v in sorted(d.items(), key=lambda pair: pair[0])}, first, rest


def unpacking(x):
    a, b = x.reshape(2, 2)
    values, where = tessera.max(x, dim=0)
    return a @ b, values, where, x.shape, x[1:3], x[None, ..., 0]


def strings(x):
    name = "sin" if x.dim() == 1 and x.dtype == tessera.float32 else "cos"
    return getattr(x, name)(), isinstance(x, tessera.Tensor), x.size(0), len(x)


def written(x):
    y = x.clone()
    y[0] = 5
    y += 1
    y.mul_(2)
    return y


@dataclasses.dataclass
class Pair:
    first: tessera.Tensor
    second: int = 3

    @property
    def both(self):
        return self.first * self.second

    def __add__(self, other):
        return Pair(self.first + other.first, self.second + other.second)


def objects(x):
    pair = Pair(x) + Pair(x * 2, second=1)
    return pair.both


def while_loop(x):
    n = 0
    while n < 3:
        x, n = x * 2, n + 1
        if n == 2:
            continue
    return x


@pytest.mark.parametrize(
    "function",
    [lambda_, loop, closure, generator, exceptions, grad_modes, containers, unpacking, strings, written, objects,
     while_loop],
)  # fmt: skip
def test_one_graph(function):
    assert len(graphs_of(function, (X,), (X,), fullgraph=True)) == 1


def by_value(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def by_item(x):
    return x * x.sum().item()


def by_print(x):
    y = x.sin()
    print(end="")
    return y.cos()


def in_call(x):
    return [x, by_print(x + 1)], x


def in_loop(x):
    for i in range(3):
        x = x + i
        print(end="")
    return x


def in_try(x):
    y = x + 1
    try:
        y = y * 2
        print(end="")
        y = y / 0
    finally:
        y = y + 1
    return y


def in_with(x):
    with tessera.no_grad():
        y = x * 2
        print(end="")
        on = tessera.is_grad_enabled()
    return y * x, on, tessera.is_grad_enabled()


def shared(x):
    n = x + 1

    def f():
        return n * 2

    print(end="")
    n = n + 1
    return f()


@pytest.mark.parametrize(
    ("function", "count"),
    [(by_value, 2), (by_item, 2), (by_print, 2), (in_call, 3), (in_loop, 3), (in_try, 1), (in_with, 1), (shared, 2)],
)
def test_graph_breaks(function, count):
    assert len(graphs_of(function, (X,), (X,))) == count
    if function is by_item:
        return  # a graph that has to be whole holds the number
    with pytest.raises(tessera._dynamo.exc.Unsupported) as error:
        tessera.compile(function, backend="eager", fullgraph=True)(X)
    assert "test_capture.py" in str(error.value) and function.__name__ in str(error.value)


def test_both_sides_of_a_branch():
    assert len(graphs_of(by_value, (X,), (-X,), (X,), (-X,))) == 3


def test_compiles_again_when_something_changes():
    def f(x, k):
        return x * k

    calls = [(X, 2), (X, 2), (X, 3), (X.double(), 2), (X.reshape(2, 2), 2), (X.requires_grad_(False), 2)]
    assert len(graphs_of(f, *calls)) == 4


def test_globals_and_closures_are_guarded():
    space = {"scale": 2}
    exec("def f(x):\n    return x * scale\n", space)
    compiled = tessera.compile(space["f"], backend="eager")
    assert compiled(X).tolist() == (X * 2).tolist()
    space["scale"] = 3
    assert compiled(X).tolist() == (X * 3).tolist()
    n = 1

    def g(x):
        return x + n

    compiled = tessera.compile(g, backend="eager")
    first = compiled(X)
    n = 2
    assert tessera.equal(compiled(X), X + 2) and tessera.equal(first, X + 1)


def test_writes_to_objects_of_others():
    def f(x, items, table):
        items.append(x + 1)
        table["n"] = table.get("n", 0) + 1
        return x * 2

    compiled = tessera.compile(f, backend="eager")
    items, table = [], {}
    for _ in range(3):
        compiled(X, items, table)
    assert [t.tolist() for t in items] == [(X + 1).tolist()] * 3 and table == {"n": 3}


class Layer(tessera.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = tessera.nn.Linear(4, 4)
        self.calls = 0
        self.register_buffer("seen", tessera.zeros(()))

    def forward(self, x, *, k=1):
        self.calls += 1
        self.seen.add_(1)
        self.last = x
        return self.linear(x) * k


def test_modules():
    layer = Layer()
    compiled = tessera.compile(layer, backend="eager", fullgraph=True)
    assert isinstance(compiled, tessera._dynamo.OptimizedModule) and compiled._orig_mod is layer
    assert list(compiled.state_dict()) == ["_orig_mod.seen", "_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    for k in (1, 2):
        assert compiled(X, k=k).tolist() == (layer.linear(X) * k).tolist()
    assert layer.calls == 2 and layer.seen == 2 and layer.last is X
    compiled(X).sum().backward()
    assert layer.linear.weight.grad is not None
    compiled.extra = 3
    assert layer.extra == 3 and compiled.extra == 3
    compiled.eval()
    assert layer.training is False and compiled.training is False


def test_parameters_are_inputs_of_the_graph():
    model = tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 2))
    (graph,) = graphs_of(model, (X,), (X,))
    assert len([n for n in graph.graph.nodes if n.op == "placeholder"]) == 5
    before = model(X)
    compiled = tessera.compile(model, backend="eager")
    compiled(X)
    with tessera.no_grad():
        model[0].weight.mul_(2)
        model[2].bias = tessera.nn.Parameter(tessera.ones(2))
    assert compiled(X).tolist() == model(X).tolist() != before.tolist()


def test_hooks_and_replaced_forwards_are_seen():
    model = tessera.nn.Linear(4, 2)
    compiled = tessera.compile(model, backend="eager")
    first = compiled(X)
    handle = model.register_forward_hook(lambda module, args, out: out + 1)
    assert tessera.equal(compiled(X), first + 1)
    handle.remove()
    assert tessera.equal(compiled(X), first)
    model.forward = lambda x: x * 2
    assert tessera.equal(compiled(X), X * 2)


def test_module_compile():
    layer = Layer()
    want = layer(X)
    layer.compile(backend="eager")
    assert tessera.equal(layer(X), want)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients(backend):
    model = tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.Tanh(), tessera.nn.Linear(8, 2))
    x = X.clone().requires_grad_()
    compiled = tessera.compile(model, backend=backend)

    def gradients(function):
        model.zero_grad()
        x.grad = None
        function(x).pow(2).sum().backward()
        return [p.grad.clone() for p in (*model.parameters(), x)]

    for a, b in zip(gradients(compiled), gradients(model), strict=True):
        tessera.testing.assert_close(a, b, rtol=0, atol=0)
    with tessera.no_grad():
        assert not compiled(x).requires_grad


def test_training_and_evaluation():
    model = tessera.nn.BatchNorm1d(3)
    compiled = tessera.compile(model, backend="eager")
    x = tessera.randn(5, 3)
    compiled(x)
    assert model.num_batches_tracked == 1
    compiled.eval()
    assert tessera.equal(compiled(x), model(x)) and model.num_batches_tracked == 1


def test_autocast():
    def f(a):
        with tessera.autocast("cpu", dtype=tessera.bfloat16):
            b = a @ a
        return b, a @ a

    graphs_of(f, (tessera.ones(2, 2),), (tessera.ones(2, 2),), fullgraph=True)


def test_limit_of_compilations():
    def f(x, k):
        return x + k

    compiled = tessera.compile(f, backend="eager")
    with tessera._dynamo.config.patch(recompile_limit=2, automatic_dynamic_shapes=False):
        for k in range(5):
            assert tessera.equal(compiled(X, k), X + k)
        strict = tessera.compile(f, backend="eager", fullgraph=True)
        for k in range(2):
            strict(X, k)
        with pytest.raises(tessera._dynamo.exc.FailOnRecompileLimitHit, match="was compiled 2 times"):
            strict(X, 5)


def test_a_fault_of_the_capture_is_none_of_the_program(monkeypatch, caplog):
    from tessera._dynamo import _frames

    def f(x):
        y = x + 1
        return [y, *(y * 2,)]

    def fails(frame, ins):
        raise ZeroDivisionError("a test")

    monkeypatch.setitem(_frames._TABLE, "BUILD_LIST", fails)
    assert [t.tolist() for t in tessera.compile(f, backend="eager")(X)] == [t.tolist() for t in f(X)]
    assert "can't be captured" in caplog.text and "a test" in caplog.text
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="the capture itself failed: ZeroDivisionError"):
        tessera.compile(f, backend="eager", fullgraph=True)(X)


def test_errors_of_the_program_are_its_own():
    def named(x, y):
        return x @ y

    compiled = tessera.compile(named, backend="eager")
    with pytest.raises(TypeError, match=r"named\(\) missing 1 required positional argument: 'y'"):
        compiled(X)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        compiled(tessera.ones(2, 2), tessera.ones(3, 3))
    with pytest.raises(NameError, match="undefined_name"):
        tessera.compile(lambda x: undefined_name + x, backend="eager")(X)  # noqa: F821


def test_threads():
    import threading

    compiled, right = tessera.compile(lambda x: (x * 2).sum(), backend="eager"), []

    def work(n):
        right.extend(compiled(tessera.ones(n)).item() == 2 * n for _ in range(20))

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 60


@functools.lru_cache(8)
def _planned(count, *, letters="a"):
    return count + len(letters)


@functools.lru_cache(8)
def _pair(x):
    return [x * 2, x + 1]


def test_functions_with_a_cache_and_methods_of_constants():
    def function(x):
        a, b = _pair(x)
        return a * _planned(2) + b * _planned(3, letters="bb") + (1 if keyword.iskeyword("for") else 5)

    graphs_of(function, (tessera.ones(2),), fullgraph=True)
    assert tessera.compile(lambda x: x + _pair(1)[1], backend="eager", fullgraph=True)(tessera.ones(1)).item() == 3


def test_layers_are_captured_under_the_other_name():
    # There the operators of nn say that they are torch's.
    program = (
        "import torch; f = torch.compile(torch.nn.Linear(2, 1), backend='eager', fullgraph=True); f(torch.ones(2))"
    )
    subprocess.run([sys.executable, "-m", "tessera", "-c", program], check=True)


def test_both_functions_of_cond_are_captured():
    graphs, w = [], tessera.ones(2) * 3

    def keep(module, inputs):
        graphs.append(module)
        return module

    def f(x, y):
        z = x * 2
        first = tessera.cond(x.sum() > 0, lambda x: {"r": (x + w, y)}, lambda x: {"r": (x - z, y.sin())}, (x,))["r"]
        return first[0] * first[1]

    compiled = tessera.compile(f, backend=keep, fullgraph=True)
    for sign in (1, -1):
        x, y = tessera.ones(2) * sign, tessera.ones(2)
        assert tessera.equal(compiled(x, y), f(x, y))
    assert len(graphs) == 1 and {"cond_true_0", "cond_false_0"} <= {n for n, _ in graphs[0].named_children()}
    written = []
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="writes to objects"):
        tessera.compile(
            lambda x: tessera.cond(x.sum() > 0, lambda x: (written.append(1), x + 1)[1], lambda x: x + 2, (x,)),
            backend="eager", fullgraph=True,
        )(tessera.ones(1))  # fmt: skip


def test_operators_of_ops_and_custom_ones_are_captured():
    @tessera.library.custom_op("captured::twice", mutates_args=())
    def twice(x: tessera.Tensor) -> tessera.Tensor:
        return x * 2

    twice.register_fake(lambda x: tessera.empty_like(x))

    @tessera.library.custom_op("captured::inc_", mutates_args={"x"})
    def inc_(x: tessera.Tensor) -> None:
        x.add_(1)

    def f(x):
        y = x.clone()
        inc_(y)
        return twice(y) + tessera.ops.captured.twice(x) + tessera.ops.aten.sin.default(x)

    x = tessera.ones(2)
    assert tessera.equal(tessera.compile(f, backend="eager", fullgraph=True)(x), f(x))


def test_graph_modules_are_looked_into():
    class Layer(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = tessera.nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x).relu()

    class Around(tessera.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x * 2)

    inner, x = tessera.fx.symbolic_trace(Layer()), tessera.arange(6.0).view(3, 2) - 3
    outer = Around(inner)
    for module in (inner, outer):
        assert tessera.equal(tessera.compile(module, fullgraph=True)(x), module(x))
    compiled = tessera.compile(outer, fullgraph=True)
    before = compiled(x)
    next(n for n in inner.graph.nodes if n.op == "call_method").target = "tanh"
    inner.recompile()
    assert tessera.equal(compiled(x), inner.linear(x * 2).tanh()) and not tessera.equal(compiled(x), before)


def test_assertions_about_numbers():
    def f(x):
        tessera._assert(x.shape[-1] == 3, "not three")
        return x * 2

    for dynamic in (False, True):
        compiled = tessera.compile(f, fullgraph=True, dynamic=dynamic)
        assert compiled(tessera.ones(2, 3)).sum() == 12 and compiled(tessera.ones(5, 3)).sum() == 30
        with pytest.raises(tessera._dynamo.exc.Unsupported):
            compiled(tessera.ones(2, 4))
    with pytest.raises(AssertionError, match="not three"):
        tessera.compile(f)(tessera.ones(2, 4))


class Renamed:
    """A configuration some of whose names are other ones."""

    names: dict = {"width": "hidden"}  # noqa: RUF012

    def __init__(self, hidden):
        self.hidden = hidden

    def __setattr__(self, key, value):
        super().__setattr__(type(self).names.get(key, key), value)

    def __getattribute__(self, key):
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)

    @property
    def twice(self):
        return 2 * self.width

    def scaled(self, x):
        return x * self.width


def test_a_getattribute_of_their_own_is_looked_into():
    config, x = Renamed(3), tessera.ones(2)

    def read(x):
        return config.scaled(x) + config.twice + getattr(config, "depth", 5) + hasattr(config, "width")

    def write(x):
        made, config.width = Renamed(2), 7
        made.width += 3
        return x * made.hidden + made.width + config.width

    for function, wanted in ((read, 15), (write, 17)):
        compiled = tessera.compile(function, backend="eager", fullgraph=True)
        assert compiled(x).tolist() == [wanted] * 2
    assert config.hidden == 7
    assert tessera.compile(read, backend="eager", fullgraph=True)(x).tolist() == [27, 27]
    config.width = 1
    assert tessera.compile(read, backend="eager", fullgraph=True)(x).tolist() == read(x).tolist() == [9, 9]


def test_where_values_stand_in_lists():
    def f(x):
        kinds = [getattr(one, "kind", None) for one in (x, 3, "full")] + ["window", "full"]
        kinds.remove(None)
        sizes = (*x.shape, x.size(0))
        return x * kinds.index("window") + kinds.index("full", 3) + kinds.count(None) * 10 + sizes.count(2)

    for dynamic in (False, True):
        for n in (2, 5):
            x = tessera.ones(n, 3)
            assert tessera.equal(tessera.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)(x), f(x))

    def missing(x):
        try:
            return x + [1, 2].index(int(x.dim()))
        except ValueError:
            return x - 1

    assert tessera.compile(missing, backend="eager")(tessera.ones(3, 1, 1)).sum() == 0


def test_slices_of_module_lists():
    layers = tessera.nn.ModuleList(tessera.nn.Linear(2, 2) for _ in range(3))

    def f(x):
        for layer in layers[:2]:
            x = layer(x)
        return x, layers[1:]

    x = tessera.ones(1, 2)
    found, rest = tessera.compile(f, backend="eager", fullgraph=True)(x)
    assert tessera.equal(found, f(x)[0])
    assert type(rest) is tessera.nn.ModuleList and [*rest] == [*layers][1:]


class Record(collections.OrderedDict):
    """A dict whose items are attributes, too."""

    def __setattr__(self, name, value):
        if name in {field.name for field in dataclasses.fields(self)} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, at):
        return dict(self.items())[at] if isinstance(at, str) else tuple(self.values())[at]


@dataclasses.dataclass
class Found(Record):
    hidden: object = None
    cache: object = None
    extra: object = None


class Labelled(dict):
    label = 3


def test_dicts_of_classes_of_their_own_are_made():
    def f(x):
        found, more = Found(hidden=x * 2, extra=(x, 3)), Labelled(a=x + 1)
        more["b"] = found[0] + found["hidden"] + found.hidden + len(found) + ("cache" in found) + more.label
        found.cache = found.__dict__.get("extra")[1] + sum(1 for name in found if name in more) + more["a"]
        return found, more

    x = tessera.ones(2)
    for fullgraph in (True, False):
        for made, wanted in zip(tessera.compile(f, backend="eager", fullgraph=fullgraph)(x), f(x)):
            assert type(made) is type(wanted) and [*made] == [*wanted]
            tessera.testing.assert_close(dict(made.items()), dict(wanted.items()))
            tessera.testing.assert_close(vars(made), vars(wanted))

    def broken(x):
        found = Found(hidden=x)
        print(end="")
        found.cache = x * 2
        return found

    made = tessera.compile(broken, backend="eager")(x)
    assert [*made] == ["hidden", "cache"] and made["cache"].sum() == 4 == made.cache.sum()
