"""Writes in place to parts whose place, or size, is a symbol: as operators that write to nothing."""

import pytest

import tessera
from tessera import nn
from tessera.export import Dim, export

aten = tessera.ops.aten


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def row(x, i):
    x.select(0, i).add_(1)


def part_of_column(x, i):
    x.select(1, i)[1:].mul_(5)


def narrowed(x, i):
    x.narrow(0, i, 1).neg_()


def assigned(x, i):
    x[i] = 7
    x[i, 1:] += 1


def halves(x, i):
    first, second = x.split([i, x.shape[0] - i])
    first.zero_()
    second.add_(1)


def up_to(x, i):
    x[:i].fill_(i).mul_(x.shape[0])
    x.t()[1:, i].sub_(3)


def reshaped(x, i):
    x.view(-1)[i].zero_()
    x.view(x.shape[0], 1, -1)[:, 0, 1].mul_(2)
    x.unsqueeze(1)[i].copy_(tessera.ones(1))


WRITES = [row, part_of_column, narrowed, assigned, halves, up_to, reshaped]


def on_a_copy(write, number):
    def run(x, given):
        x = x.clone()
        write(x, number(given))
        return x

    return run


@pytest.mark.parametrize("write", WRITES)
def test_writes_at_sizes(write):
    run = on_a_copy(write, lambda y: y.shape[0])
    args = tessera.arange(24.0).view(6, 4), tessera.ones(3)
    program = export(Of(run), args, dynamic_shapes=(({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),)).run_decompositions()
    schemas = [n.target._schema for n in program.graph.nodes if hasattr(n.target, "_schema")]
    assert not any(s.is_mutable for s in schemas) and not program.constants
    for rows, i in ((6, 3), (10, 3), (6, 2), (9, 2)):
        x, y = tessera.arange(rows * 4.0).view(rows, 4), tessera.ones(i)
        assert tessera.equal(program.module()(x, y), run(x, y))


@pytest.mark.parametrize("write", [row, part_of_column, narrowed, assigned])
def test_writes_at_numbers_of_tensors(write):
    run = on_a_copy(write, lambda t: t.item())
    x = tessera.arange(12.0).view(4, 3)
    program = export(Of(run), (x, tessera.tensor(1))).run_decompositions()
    with tessera._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = tessera.compile(run, backend="aot_eager", dynamic=True, fullgraph=True)
        for i in (1, 0, 2, -1):
            if write is not narrowed or i >= 0:
                at = tessera.tensor(i)
                assert tessera.equal(program.module()(x, at), run(x, at))
                assert tessera.equal(compiled(x, at), run(x, at))


def test_what_cannot_be_ahead_of_time_says_nothing(capfd):
    def run(x, t):
        x = x.clone()
        x[: t.item()].add_(1)
        return x

    x = tessera.arange(12.0).view(4, 3)
    with tessera._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = tessera.compile(run, backend="aot_eager", dynamic=True, fullgraph=True)
        assert tessera.equal(compiled(x, tessera.tensor(2)), run(x, tessera.tensor(2)))
    assert capfd.readouterr().err == ""


def test_numbers_that_an_overload_takes_as_such_are_no_tensors():
    program = export(
        Of(lambda x, y: x.narrow(0, y.shape[0], 1) + y.shape[0]), (tessera.ones(6), tessera.ones(3)),
        dynamic_shapes=(({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),),
    )  # fmt: skip
    called = [n.target for n in program.graph.nodes if n.op == "call_function"]
    assert aten.narrow.default in called and aten.add.Tensor in called
