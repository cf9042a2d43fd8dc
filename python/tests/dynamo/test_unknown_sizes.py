"""Sizes that a capture knows nothing of (mark_unbacked), and what programs say of numbers (torch._check)."""

import pytest
import tessera
from tessera._dynamo.decorators import mark_unbacked


@pytest.fixture
def compiled():
    tessera._dynamo.reset()
    graphs = []

    def make(function, **settings):
        def keep(module, examples):
            graphs.append(module)
            return module

        call = tessera.compile(function, backend=keep, fullgraph=True, **settings)

        def marked(*sizes, **marks):
            given = [tessera.ones(n, 2) for n in sizes]
            for x in given:
                mark_unbacked(x, 0, **marks)
            return tuple(call(*given).shape)

        return marked, graphs

    return make


def test_one_graph_for_every_size(compiled):
    call, graphs = compiled(lambda x: x.view(-1) * 2)
    assert [call(n) for n in (3, 7, 1, 0)] == [(6,), (14,), (2,), (0,)] and len(graphs) == 1


def test_a_branch_is_an_error(compiled):
    call, _ = compiled(lambda x: x * 2 if x.shape[0] > 4 else x)
    with pytest.raises(RuntimeError, match="data-dependent expression"):
        call(3)


@pytest.mark.parametrize("marks", [{}, {"shape_id": "batch"}])
def test_equal_sizes(compiled, marks):
    call, graphs = compiled(lambda x, y: x + y)
    assert call(3, 3, **marks) == (3, 2) and call(4, 4, **marks) == (4, 2) and len(graphs) == 1
    with pytest.raises(RuntimeError, match="must match"):
        call(4, 5, **marks)


def test_one_number(compiled):
    call, graphs = compiled(lambda x: x.expand(3, 2))
    assert call(3) == (3, 2) and len(graphs) == 1
    with pytest.raises(RuntimeError, match="expanded size"):
        call(4)
    with pytest.raises(RuntimeError, match="specialized it to be a constant"):
        compiled(lambda x: x + tessera.ones(3, 2))[0](3, strict=True)


def test_what_marks_refuse():
    x = tessera.ones(3, 2)
    for kind, arguments in ((TypeError, (1, 0)), (IndexError, (x, 2)), (AssertionError, (x, "0"))):
        with pytest.raises(kind):
            mark_unbacked(*arguments)
    with pytest.raises(NotImplementedError, match="hint_override"):
        mark_unbacked(x, 0, hint_override=8)


def test_checks_of_sizes():
    def function(x):
        tessera._check(x.shape[0] > 2, lambda: f"only {x.dim()} dimensions")
        tessera._check_is_size(x.shape[0], max=9)
        tessera._check_value(x.dim() == 2)
        return x * 2

    tessera._dynamo.reset()
    graphs = []
    call = tessera.compile(function, backend=lambda gm, _: graphs.append(gm) or gm, dynamic=True)
    assert call(tessera.ones(3, 2)).shape == (3, 2) and call(tessera.ones(5, 2)).shape == (5, 2)
    assert len(graphs) == 1 and tessera._check in [n.target for n in graphs[0].graph.nodes]
    with pytest.raises(RuntimeError, match="only 2 dimensions"):
        call(tessera.ones(2, 2))
    with pytest.raises(RuntimeError):
        call(tessera.ones(10, 2))
    with pytest.raises(ValueError):
        call(tessera.ones(3, 2, 2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function", [lambda x, at: tessera.tensor_split(x, at), lambda x, at: (x[: at[0].item()], x[at[0].item() :] + 1)]
)
def test_views_between_numbers_of_tensors(function, backend):
    x = tessera.arange(12.0).view(6, 2)
    compiled = tessera.compile(function, backend=backend, fullgraph=True)
    for indices in ([2, 4], [1, 2], [0, 6]):
        at = tessera.tensor(indices)
        for got, want in zip(compiled(x, at), function(x, at), strict=True):
            assert tessera.equal(got, want)


ASSERTIONS = """
def of_tensors(x):
    y = x + 1
    assert (y > 0).all(), "not all of them"
    assert not (y > 9).any()
    return y * 2


def of_numbers(x):
    n = x.sum().item()
    assert n > 0
    return x * n
"""


def test_assertions_are_checked_where_the_graph_runs():
    space = {}
    exec(compile(ASSERTIONS, "program.py", "exec"), space)  # not as pytest writes them
    for function, message in ((space["of_tensors"], "not all of them"), (space["of_numbers"], "Expected cond")):
        compiled = tessera.compile(function, backend="eager", fullgraph=True)
        assert tessera.equal(compiled(tessera.ones(3)), function(tessera.ones(3)))
        with pytest.raises(RuntimeError, match=message):
            compiled(tessera.full((3,), -5.0))
    with pytest.raises(RuntimeError, match="assertion error"):
        tessera.compile(space["of_tensors"], backend="eager", fullgraph=True)(tessera.full((3,), 10.0))


def test_symbolic_numbers_as_tensors():
    def program(x, y):
        return x * tessera.tensor(y) + tessera.tensor(x.shape[0])

    compiled = tessera.compile(program, backend="eager", fullgraph=True, dynamic=True)
    for n in (3, 5):
        assert tessera.equal(compiled(tessera.ones(n), n + 0.5), program(tessera.ones(n), n + 0.5))
