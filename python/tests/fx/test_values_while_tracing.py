"""What a trace of real tensors does when the program asks for a number, and what modes see of such questions."""

import pytest

import tessera
from tessera._functorch.aot_autograd import aot_function
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils._python_dispatch import TorchDispatchMode

X = tessera.ones(3)


@pytest.mark.parametrize("function", [
    lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: x * float(x.sum()),
    lambda x: x[int(x[0]) :], lambda x: [x, -x][x[0].int()], lambda x: x * complex(x[0]).real,
])  # fmt: skip
def test_a_number_of_this_run_is_no_part_of_a_graph(function):
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(function)(X)
    graph = make_fx(function, _error_on_data_dependent_ops=False)(X)
    assert tessera.equal(graph(X), function(X))


def test_numbers_of_constants_are():
    held = tessera.tensor(4.0)
    graph = make_fx(lambda x: x * held.item() + int(tessera.tensor(2)))(X)
    assert graph(X).tolist() == [6, 6, 6]
    with pytest.raises(RuntimeError, match="get value out"):
        aot_function(lambda x: x * x.sum().item(), lambda g, _: g)(X)


def test_modes_see_the_question():
    class Seen(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    one = tessera.ones(1)
    for ask in (lambda: one.item(), lambda: bool(one), lambda: int(one), lambda: float(one), lambda: complex(one)):
        with Seen() as seen:
            assert ask() == 1
        assert seen.names == ["aten::_local_scalar_dense"]
    with Seen() as seen:
        assert [7, 8][tessera.tensor(1)] == 8 and tessera.func.vmap(lambda t: t * 2)(one).item() == 2
