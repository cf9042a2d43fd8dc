"""Runs of elementwise operators in programs: the bits of the operators one by one, whatever the tensors are."""

import pytest
import tessera
from tessera import nn


@tessera.jit.script
def chain(x, y, s: float):
    a = x * 0.5 + y
    b = tessera.sigmoid(a) * tessera.tanh(x - y)
    c = (b + a) / (a * a + 1.5)
    return tessera.relu(c) - tessera.exp(-a), b


@tessera.jit.script
def gates(x, h, c):
    i, f, g, o = tessera.chunk(x + h, 4, -1)
    c = tessera.sigmoid(f) * c + tessera.sigmoid(i) * tessera.tanh(g)
    return tessera.sigmoid(o) * tessera.tanh(c), c


@tessera.jit.script
def parts(x, h, state):
    a, b, c = tessera.chunk(x, 3, -1)
    d, e, f = tessera.chunk(h, 3, -1)
    z = tessera.sigmoid(b + e)
    n = tessera.tanh(c + tessera.sigmoid(a + d) * f)
    return (state - n) * z + n


def _eager(function):
    return function.__wrapped__


def wave(*shape, dtype=tessera.float32, scale=0.37):
    n = 1
    for s in shape:
        n *= s
    return (tessera.arange(n, dtype=tessera.float64) * scale).sin().to(dtype).reshape(shape)


def same(a, b):
    a, b = ((v,) if isinstance(v, tessera.Tensor) else v for v in (a, b))
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.dtype == y.dtype and x.stride() == y.stride() and tessera.equal(x, y)


KINDS = [tessera.float32, tessera.float64, tessera.float16, tessera.bfloat16]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (1, 1000), (70, 1000), (0, 3)], ids=str)
def test_chains_have_the_bits_of_their_operators(shape, dtype):
    x, y = wave(*shape, dtype=dtype), wave(*shape, dtype=dtype, scale=0.11)
    same(chain(x, y, 1.0), _eager(chain)(x, y, 1.0))


@pytest.mark.parametrize("dtype", KINDS[:2], ids=str)
@pytest.mark.parametrize("rows,width", [(1, 16), (5, 7), (64, 33), (3, 2000)])
def test_parts_of_a_chunk(rows, width, dtype):
    x, h = wave(rows, 4 * width, dtype=dtype), wave(rows, 4 * width, dtype=dtype, scale=0.11)
    c = wave(rows, width, dtype=dtype, scale=0.7)
    same(gates(x, h, c), _eager(gates)(x, h, c))
    x, h = x[:, : 3 * width].contiguous(), h[:, : 3 * width].contiguous()
    same(parts(x, h, c), _eager(parts)(x, h, c))


def test_tensors_that_a_block_program_does_not_take():
    x, y = wave(4, 6), wave(4, 6, scale=0.11)
    for a, b in (
        (x.t(), y.t()),
        (x, y[:1]),
        (x, y[0]),
        (x, tessera.tensor(0.3)),
        (tessera.tensor(2), y),
        (x[:, ::2], y[:, ::2]),
        (x, y.double()),
        ((x * 9).long(), y),
        (x.to(tessera.complex64), y),
    ):
        if a.is_complex():
            with pytest.raises(RuntimeError):
                chain(a, b, 1.0)
        else:
            same(chain(a, b, 1.0), _eager(chain)(a, b, 1.0))
    with pytest.raises(RuntimeError, match="must match the size"):
        chain(x, y[:, :5], 1.0)
    wide = wave(4, 26)  # four parts that are not equal
    with pytest.raises(RuntimeError):
        gates(wide, wide, wave(4, 6))


def test_derivatives_and_modes():
    x, y = wave(3, 4).requires_grad_(), wave(3, 4, scale=0.11)
    results = []
    for run in (chain, _eager(chain)):
        out, b = run(x, y, 1.0)
        results.append((out.detach(), *tessera.autograd.grad((out.sum() + b.sum()), x)))
    same(*results)
    with tessera.no_grad():
        assert not chain(x, y, 1.0)[0].requires_grad
    with tessera.inference_mode():
        assert chain(wave(3), wave(3), 1.0)[0].is_inference()
    jacobian = tessera.func.vmap(lambda v: chain(v, y[0], 1.0)[0])(x.detach())
    assert tessera.equal(jacobian, _eager(chain)(x.detach(), y[:1].expand(3, 4), 1.0)[0])
    with tessera.autocast("cpu", tessera.bfloat16):
        same(chain(x.detach(), y, 1.0), _eager(chain)(x.detach(), y, 1.0))


def test_kernels_that_are_added_later_are_called():
    x, y = wave(3), wave(3, scale=0.11)
    before = chain(x, y, 1.0)
    library = tessera.library.Library("aten", "IMPL")
    library.impl("tanh", lambda t: tessera.zeros_like(t), "CPU")
    try:
        assert chain(x, y, 1.0)[1].tolist() == [0.0, 0.0, 0.0]
    finally:
        library._destroy()
    same(chain(x, y, 1.0), before)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_loops_of_cells(kind):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            tessera.manual_seed(0)
            self.cell = kind(5, 6)

        def forward(self, x, h):
            for i in range(x.size(0)):
                h = self.cell(x[i], h)
            return h

    class Pairs(Loop):
        def forward(self, x, state: tuple[tessera.Tensor, tessera.Tensor]):
            for i in range(x.size(0)):
                state = self.cell(x[i], state)
            return state

    lstm = kind is nn.LSTMCell
    m, h = Pairs() if lstm else Loop(), wave(3, 6)
    state = (h, h * 2) if lstm else h
    scripted = tessera.jit.script(m)
    for grad in (False, True):
        with tessera.set_grad_enabled(grad):
            same(scripted(wave(9, 3, 5), state), m(wave(9, 3, 5), state))


def test_numbers_that_are_met_late():
    def f(x, y):
        return 13 * y * (x - 0.2), 13 * y * (x - 0.5), x * y - 0.25

    for n in (6, 9000):
        same(tessera.jit.script(f)(wave(n), wave(n) + 1), f(wave(n), wave(n) + 1))


def test_values_that_leave_the_run():
    """Conditions and loops between runs, values used before and after them, results that nobody reads."""

    @tessera.jit.script
    def f(x, n: int):
        a = x * 2.0 + 1.0
        _ = a * 3.0
        for i in range(n):
            b = a * 0.5 - x
            a = b + tessera.tanh(a)
            if bool(a.sum() > 3.0):
                a = (a - 1.0) * 0.25
        c, d = a + 1.0, a - 1.0
        e = c * d
        c += e
        return c, d, e, x

    for x in (wave(3, 4), wave(5).requires_grad_()):
        same([t.detach() for t in f(x, 6)], [t.detach() for t in _eager(f)(x, 6)])
