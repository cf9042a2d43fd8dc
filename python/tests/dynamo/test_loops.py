"""Operators that call functions again and again, captured whole: while_loop, scan, map, associative_scan."""

import io

import pytest
import tessera
from tessera._higher_order_ops import associative_scan, map, scan
from tessera.export import Dim, export, load, save
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils import _pytree as pytree

A, B = tessera.tensor([1.0, 2.0, 3.0]), tessera.tensor([0.5, 1.5, 2.0])


def while_(x, w):
    return tessera.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), (tessera.tensor(0), x))[1]


def backward_scan(x, w):
    rows = tessera.stack([x, w, x], 1)
    return scan(lambda c, z: (c * w + z, {"a": c * z}), x, rows, dim=1, reverse=True)


def scaled(x, w):
    return map(lambda z, v: z * v * w, tessera.stack([x, w]), x)


def prefixes(x, w):
    return associative_scan(lambda a, b: a * b, tessera.stack([x, w, x]), 0)


def branches(x, w):  # of which one gives an operand's gradient twice
    one, two = (lambda z: z * w), (lambda z: z + w)
    return map(lambda z: tessera.cond(z.sum() > 2, one, two, (z,)), tessera.stack([x, w]))


def results_and_gradients(function):
    given = [v.clone().requires_grad_() for v in (A, B)]
    made = pytree.tree_leaves(function(*given))
    return [*made, *tessera.autograd.grad(sum(t.sum() for t in made), given)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [while_, backward_scan, scaled, prefixes, branches])
def test_one_graph(function, dynamic, backend):
    tessera._dynamo.reset()
    call = tessera.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    for got, want in zip(results_and_gradients(call), results_and_gradients(function)):
        assert tessera.allclose(got, want)


class Counted(tessera.nn.Module):
    def forward(self, x):
        return tessera.while_loop(lambda i, y: i < y.shape[0], lambda i, y: (i + 1, y + i), (0, x))


@pytest.mark.parametrize("strict", [False, True])
def test_numbers_are_carried(strict):
    x = tessera.ones(4)
    assert tessera.compile(Counted(), backend="eager", fullgraph=True)(x)[0] == 4
    program = export(Counted(), (x,), dynamic_shapes=({0: Dim.DYNAMIC},), strict=strict)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    for module in (program.module(), program.run_decompositions().module(), load(file).module()):
        for n in (2, 6):
            count, made = module(tessera.ones(n))
            assert type(count) is int and count == n and tessera.equal(made, tessera.ones(n) + sum(range(n)))


def test_numbers_of_loops_on_real_tensors_are_refused():
    with pytest.raises(RuntimeError, match="tracing_mode='symbolic'"):
        make_fx(Counted())(tessera.ones(3))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_results_that_are_operands(mode):
    def function(x):
        a, b = tessera.cond(x.sum() > 0, lambda x: (x * 2, x * 3), lambda x: (x, x), (x,))
        return a + b - x + tessera.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))

    signs = tessera.ones(3), -tessera.ones(3)
    for given in signs:
        traced = make_fx(function, tracing_mode=mode)(given)
        assert all(tessera.equal(traced(x), function(x)) for x in signs)


class Nested(tessera.nn.Module):
    def __init__(self, varies):
        super().__init__()
        self.varies = varies
        tessera.manual_seed(0)
        self.linear = tessera.nn.Linear(2, 2)

    def forward(self, n, x):
        def outer(i, x):
            start = i + 1 if self.varies else tessera.tensor(2)
            inner = tessera.while_loop(lambda j, x: j > 0, lambda j, x: (j - 1, self.linear(x) + 3), (start, x))
            return i - 1, inner[1] * 0.5

        return tessera.while_loop(lambda i, x: i > 0, outer, (n, x))[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("varies", [False, True])
def test_loops_in_loops(varies, backend):
    tessera._dynamo.reset()
    found = []
    for module in (Nested(varies), tessera.compile(Nested(varies), backend=backend, fullgraph=backend == "eager")):
        x = tessera.ones(2, 2, requires_grad=True)
        made = module(tessera.tensor(2), x)
        made.square().sum().backward()
        found.append([made, x.grad, *(p.grad for p in module.parameters())])
    assert all(tessera.allclose(a, b) for a, b in zip(*found))


class Rows(tessera.nn.Module):
    def forward(self, x):
        return tessera.while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y + y[i].sum()), (0, x))


def test_rows_at_numbers_that_are_carried():
    x = tessera.arange(6.0).reshape(2, 3)
    want = Rows()(x)
    program = export(Rows(), (x,))
    calls = [program.module(), program.run_decompositions().module()]
    calls += [tessera.compile(Rows(), backend=backend, fullgraph=True) for backend in ("eager", "aot_eager")]
    for call in calls:
        count, made = call(x)
        assert count == want[0] == 2 and tessera.equal(made, want[1])


def loop(x, w):
    return tessera.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * (w * y).sin()), (tessera.tensor(0), x))[1]


def in_a_branch(x, w):
    return tessera.cond(x.sum() > 0, loop, lambda x, w: x.cos() * w, (x, w))


def in_a_map(x, w):
    return map(lambda row, w: loop(row, w), tessera.stack([x, x + 1]), w)


def in_a_scan(x, w):
    return scan(lambda c, row: (loop(c, w) + row, c * 2), x, tessera.ones(2, 3))[1]


def in_a_loop(x, w):
    return tessera.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, loop(y, w)), (tessera.tensor(0), x))[1]


def run_again(x, w):
    return tessera.utils.checkpoint.checkpoint(in_a_branch, x, w, use_reentrant=False)


@pytest.mark.parametrize("function", [in_a_branch, in_a_map, in_a_scan, in_a_loop, run_again])
def test_loops_in_functions_of_operators(function):
    given = [v.clone().requires_grad_() for v in (A / 4, B)]

    def gradients(*args):
        return tessera.autograd.grad(function(*args).sum(), args)

    want = [function(*given), *gradients(*given)]
    compiled = tessera.compile(function, backend="aot_eager")(*given)
    traced = make_fx(function)(*given)(*given)
    found = [[made, *tessera.autograd.grad(made.sum(), given)] for made in (compiled, traced)]
    found.append([want[0], *make_fx(gradients)(*given)(*given)])
    for got, expected in ((g, w) for one in found for g, w in zip(one, want, strict=True)):
        assert tessera.allclose(got, expected)
