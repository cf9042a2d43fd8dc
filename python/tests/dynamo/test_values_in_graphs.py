"""Numbers and sizes that depend on values, as symbols in captured graphs."""

import pytest
import tessera
from tessera._dynamo import config

FLOATS = [tessera.arange(float(n)) for n in (3, 4, 2)]


def scaled(x):
    return x * x.sum().item()


def by_int(x):
    return tessera.zeros(int(x.sum())) + x.sum().item()


def listed(x):
    a, *_ = x.tolist()
    return x + a


@pytest.fixture(autouse=True)
def fresh():
    tessera._dynamo.reset()


def compiled(function, backend="eager", **settings):
    graphs = []

    def keep(module, examples):
        graphs.append(module)
        return tessera._dynamo.lookup_backend(backend)(module, examples)

    return tessera.compile(function, backend=keep, **settings), graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [scaled, by_int, lambda x: x.nonzero() + 1, lambda x: x[x > 0],
                                      lambda x: tessera.masked_select(x, x > 0), lambda x: tessera.nonzero(x),
                                      lambda x: x.unique()])  # fmt: skip
def test_one_graph_for_all_values(function, backend):
    call, graphs = compiled(function, backend, fullgraph=True, dynamic=False)
    for x in (tessera.tensor([1.0, 2.0]), tessera.tensor([5.0, 0.0]), tessera.tensor([0.0, 3.0])):
        assert tessera.equal(call(x), function(x))
    assert len(graphs) == 1


def test_a_list_of_numbers():
    call, graphs = compiled(listed, fullgraph=True)
    for x in (tessera.tensor([1, 2]), tessera.tensor([7, 2])):
        assert tessera.equal(call(x), listed(x))
    assert len(graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    call, _ = compiled(lambda x: scaled(x).sum(), backend, fullgraph=True)
    for values in FLOATS:
        x = values.clone().requires_grad_()
        call(x).backward()
        assert tessera.equal(x.grad, tessera.full_like(values, values.sum().item()))


def test_checks_hold_for_later_values():
    def cut(x, n):
        k = n.item()
        tessera._check(k >= 0)
        tessera._check(k <= x.shape[0])
        return x[:k]

    call, graphs = compiled(cut, fullgraph=True)
    x = tessera.arange(5)
    assert [len(call(x, tessera.tensor(n))) for n in (3, 5, 0)] == [3, 5, 0] and len(graphs) == 1
    with pytest.raises(RuntimeError):
        call(x, tessera.tensor(9))


def test_graphs_end_unless_the_settings_say_otherwise():
    assert sum(len(g.graph.nodes) for g in _graphs(scaled)) != sum(len(g.graph.nodes) for g in _graphs(scaled, True))
    assert not any(n.target == "item" for g in _graphs(scaled) for n in g.graph.nodes)
    assert any(n.target == "item" for g in _graphs(scaled, True) for n in g.graph.nodes)


def _graphs(function, numbers=False):
    tessera._dynamo.reset()
    call, graphs = compiled(function)
    with config.patch(capture_scalar_outputs=numbers):
        call(FLOATS[0])
    return graphs


def test_a_branch_ends_a_graph():
    def f(x):
        return x + 1 if x.sum().item() > 3 else x - 1

    with config.patch(capture_scalar_outputs=True):
        call, _ = compiled(f)
        assert all(tessera.equal(call(x), f(x)) for x in FLOATS)
    with pytest.raises(RuntimeError, match="data-dependent expression"):
        compiled(f, fullgraph=True)[0](FLOATS[0])


@pytest.mark.parametrize("kind", [map, filter])
def test_what_is_left_of_an_iterator_runs_when_it_is_asked(kind):
    def f(a):
        a = a + 1

        def g(x):
            nonlocal a
            a = a + x
            return x > 1

        m = kind(g, [1, 2, 3, 4, 5])
        a = a + next(m)
        tessera._dynamo.graph_break()
        before = a
        return before + next(m), a, type(m) is kind

    compiled = tessera.compile(f, backend="eager")
    for got, want in zip(compiled(tessera.ones(2)), f(tessera.ones(2)), strict=True):
        assert tessera.equal(got, want) if isinstance(want, tessera.Tensor) else got == want


def test_tensors_of_inference_are_told_apart():
    compiled = tessera.compile(lambda x: x + 1 if x.is_inference() else x - 1, backend="eager", fullgraph=True)
    with tessera.inference_mode():
        x = tessera.ones(2)
    for given, want in ((tessera.ones(2), 0), (x, 2), (tessera.ones(2), 0)):
        assert compiled(given).tolist() == [want] * 2


def test_getters_of_the_operator_module():
    import operator

    def f(x, pairs):
        first = sorted(pairs, key=operator.itemgetter(1))[0][0]
        rows, columns = operator.attrgetter("shape", "mT.shape")(x)
        return operator.methodcaller("sum", 0, keepdim=True)(x) * first + rows[0] + columns[1], operator.itemgetter(0)

    x, pairs = tessera.ones(2, 3), [(5, 2), (7, 1)]
    got, getter = tessera.compile(f, backend="eager", fullgraph=True)(x, pairs)
    assert tessera.equal(got, f(x, pairs)[0]) and getter([4, 6]) == 4


def test_methods_of_numbers_sizes_as_keys_and_attributes_of_partials():
    import functools

    def f(x, n):
        table = {x.shape: 3.0, (1,): 4.0}
        made = functools.partial(tessera.add, x)
        known = hasattr(made, "func"), hasattr(made, "__name__"), hasattr(made, "__call__")  # noqa: B004
        return x * table[x.size()] + n.bit_length(), known

    for dynamic in (False, True):
        compiled = tessera.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)
        for n in (5, 17):
            got, want = compiled(tessera.ones(2, 3), n), f(tessera.ones(2, 3), n)
            assert tessera.equal(got[0], want[0]) and got[1] == want[1] == (True, False, True)


def test_dicts_of_mappings_of_programs():
    class Table:
        def __init__(self):
            self.held = {"a": 2.0}

        def keys(self):
            return self.held.keys()

        def __getitem__(self, key):
            return self.held[key] + 1

    table, x = Table(), tessera.ones(2)
    compiled = tessera.compile(lambda x: x * dict(table)["a"] + dict([("b", 1)])["b"], backend="eager", fullgraph=True)
    assert compiled(x).tolist() == [4.0] * 2
    table.held["a"] = 4.0
    assert compiled(x).tolist() == [6.0] * 2
