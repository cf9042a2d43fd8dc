"""Sizes and numbers as symbols: fewer compilations, the same results."""

import pytest
import tessera
from tessera import _dynamo, nn
from tessera._dynamo.testing import CompileCounterWithBackend
from tessera.fx.experimental import symbolic_shapes


def count(function, *calls, **options):
    """How many graphs calls take; results are compared with those of the function."""
    counter = CompileCounterWithBackend("eager")
    compiled = tessera.compile(function, backend=counter, **options)
    for args in calls:
        tessera.testing.assert_close(compiled(*args), function(*args), rtol=0, atol=0)
    return counter.frame_count


def rows(*counts):
    return [(tessera.randn(n, 4),) for n in counts]


def cut(x):
    n = x.shape[0]
    return x.reshape(n // 1, -1)[: n - 1].sin() + x.size(-1)


def by_size(x):
    return x + 1 if x.shape[0] > 4 else x - 1


def test_a_size_that_differs_becomes_a_symbol():
    assert count(cut, *rows(3, 5, 7, 9, 11)) == 2
    assert count(cut, *rows(3, 5, 7), dynamic=True) == 1
    assert count(cut, *rows(3, 5, 7), dynamic=False) == 3
    with _dynamo.config.patch(automatic_dynamic_shapes=False):
        assert count(cut, *rows(3, 5, 7)) == 3


def test_branches_on_sizes_are_guarded():
    assert count(by_size, *rows(3, 5, 2, 8, 9, 4, 1)) == 4


def test_numbers_that_differ():
    def f(x, k):
        return x + tessera.arange(k).sum() if k > 2 else x - k

    assert count(f, *[(tessera.ones(3), k) for k in (3, 5, 7, 9, 2, 1, 0, 20)]) <= 5


def test_marked_sizes():
    x = tessera.randn(5, 4)
    _dynamo.mark_dynamic(x, 0)
    assert count(cut, (x,), *rows(8, 9)) == 1
    with pytest.raises(symbolic_shapes.ConstraintViolationError, match=r"L\['x'\].*constant \(5\)"):
        tessera.compile(lambda x: x.view(5, 4) + tessera.ones(5, 4), backend="eager")(x)
    y = tessera.randn(5, 4)
    _dynamo.mark_static(y, 0)
    assert count(cut, (y,), *rows(7), dynamic=True) == 2


def test_behind_a_graph_break():
    def f(x):
        n = x.shape[0]
        print(end="")
        return x.reshape(n, 2, 2)

    assert count(f, *rows(3, 5, 7, 9, 11)) == 3


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), [(2, 5, 16), (3, 7, 16), (4, 9, 16), (5, 6, 16)]),
        (
            nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
            ),
            [(2, 3, 8, 8), (3, 3, 9, 9), (4, 3, 12, 12)],
        ),
    ],
)
def test_models(module, shapes):
    assert count(module.eval(), *[(tessera.randn(shape),) for shape in shapes]) == 2


class Holder:
    def __init__(self, k):
        self.k = k


def times(k):
    return lambda x: x * k


@pytest.mark.parametrize(
    "function, calls, expected",
    [
        (lambda x, k: x * k, [(2.0, k) for k in (0, 1, 2, 3)], 2),
        (lambda x, k: x * k, [(2.0, k) for k in (2, 0, 1, 3)], 2),
        (lambda x: x * 2, [(tessera.randn(*s),) for s in ((2,), (2, 3), (3, 4), (4,), (5,))], 3),
        (lambda x, h: x * h.k, [(tessera.ones(3), Holder(k)) for k in (2, 3, 4, 5)], 2),
        (lambda f, x: f(x), [(times(k), tessera.ones(3)) for k in (2, 3, 4, 5)], 2),
        (lambda x: x * 2, [(x,) for x in (3, tessera.ones(3), 4, tessera.ones(4), 5)], 3),
    ],
)
def test_numbers_that_differ_are_symbols_from_the_second_one_on(function, calls, expected):
    calls = [tuple(tessera.tensor(a) if type(a) is float else a for a in args) for args in calls]
    assert count(function, *calls) == expected


def test_numbers_of_modules_stay_numbers():
    class Scaled(tessera.nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return x * self.k

    assert count(lambda x, m: m(x), *((tessera.ones(3), Scaled(k)) for k in (2, 3, 4))) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_to_what_needs_a_gradient(backend):
    def function(x, w):
        y = x * w + x
        y += 0
        y += 1.5
        return (y.add_(w, alpha=2)).sum()

    call = tessera.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for n in (4, 5):
        w, v = (tessera.arange(3.0).requires_grad_() for _ in range(2))
        got, want = call(tessera.ones(n, 3), w), function(tessera.ones(n, 3), v)
        got.backward()
        want.backward()
        assert tessera.equal(got, want) and tessera.equal(w.grad, v.grad)
