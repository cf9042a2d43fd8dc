"""Recurrent layers by the engine against their cells: sequences of different lengths, both directions, projections,
half types; derivatives of all orders and under transforms.
"""

import copy
import itertools

import pytest
import tessera
from tessera import nn
from tessera.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LENGTHS = [5, 4, 4, 1]
KINDS = {"LSTM": {}, "projected LSTM": {"proj_size": 2}, "GRU": {}, "RNN": {}, "relu RNN": {"nonlinearity": "relu"}}


def made(kind, dtype=tessera.float64, **options):
    tessera.manual_seed(0)
    return getattr(nn, kind.split()[-1])(3, 4, dtype=dtype, **KINDS[kind], **options)


def step_of(layer, tag):
    """(input, state) -> state of one layer and direction, by their definitions."""
    w = {name[: -len(tag)]: p for name, p in layer.named_parameters() if name.endswith(tag)}
    zero = tessera.zeros(())

    def step(x, state):
        a = x @ w["weight_ih"].T + w.get("bias_ih", zero)
        b = state[0] @ w["weight_hh"].T + w.get("bias_hh", zero)
        if layer.mode == "LSTM":
            i, f, g, o = (a + b).chunk(4, -1)
            c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            return (h @ w["weight_hr"].T if "weight_hr" in w else h), c
        if layer.mode == "GRU":
            (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
            z, n = (az + bz).sigmoid(), (an + (ar + br).sigmoid() * bn).tanh()
            return ((1 - z) * n + z * state[0],)
        return ((a + b).tanh() if layer.mode == "RNN_TANH" else (a + b).relu(),)

    return step


def by_definition(layer, sequence, start):
    """Outputs (steps, .) and last states of one sequence (steps, input); start: (layers * directions, .) each."""
    last = []
    for level in range(layer.num_layers):
        sides = []
        for suffix in ("", "_reverse")[: 1 + layer.bidirectional]:
            step = step_of(layer, f"_l{level}{suffix}")
            state = tuple(s[len(last)] for s in start)
            outputs = []
            for x in reversed(sequence) if suffix else sequence:
                state = step(x, state)
                outputs.append(state[0])
            sides.append(tessera.stack(outputs[::-1] if suffix else outputs))
            last.append(state)
        sequence = tessera.cat(sides, -1)
    return sequence, [tessera.stack(s) for s in zip(*last)]


def inputs(layer, sequences=len(LENGTHS)):
    groups = layer.num_layers * (1 + layer.bidirectional)
    widths = [layer.proj_size or layer.hidden_size, layer.hidden_size][: 2 if layer.mode == "LSTM" else 1]
    x = tessera.randn(max(LENGTHS), sequences, 3, dtype=tessera.float64, requires_grad=True)
    states = [tessera.randn(groups, sequences, n, dtype=tessera.float64, requires_grad=True) for n in widths]
    return x, states


def given(layer, states):
    return tuple(states) if layer.mode == "LSTM" else states[0]


def listed(states):
    return list(states) if isinstance(states, tuple) else [states]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind, bidirectional):
    for bias, layers in itertools.product((True, False), (1, 2)):
        layer = made(kind, num_layers=layers, bidirectional=bidirectional, bias=bias)
        x, states = inputs(layer)
        packed, last = layer(pack_padded_sequence(x, LENGTHS), given(layer, states))
        out = pad_packed_sequence(packed)[0]
        leaves = [x, *states, *layer.parameters()]
        loss = (out * out).sum() + sum((s * s).sum() for s in listed(last))
        grads = tessera.autograd.grad(loss, leaves)
        want_loss = 0
        for k, length in enumerate(LENGTHS):
            want, want_last = by_definition(layer, x[:length, k], [s[:, k] for s in states])
            tessera.testing.assert_close(out[:length, k], want, rtol=1e-12, atol=1e-14)
            for a, b in zip(listed(last), want_last):
                tessera.testing.assert_close(a[:, k], b, rtol=1e-12, atol=1e-14)
            want_loss = want_loss + (want * want).sum() + sum((s * s).sum() for s in want_last)
        for a, b in zip(grads, tessera.autograd.grad(want_loss, leaves)):
            tessera.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sequences", [1, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_batches(kind, sequences):
    layer = made(kind, num_layers=2, bidirectional=True)
    x, states = inputs(layer, sequences)
    out, last = layer(x, given(layer, states))
    for k in range(sequences):
        want, want_last = by_definition(layer, x[:, k], [s[:, k] for s in states])
        tessera.testing.assert_close(out[:, k], want, rtol=1e-12, atol=1e-14)
        for a, b in zip(listed(last), want_last):
            tessera.testing.assert_close(a[:, k], b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_packed_sequences_can_be_differentiated(kind):
    layer = made(kind, bidirectional=True)
    x, states = inputs(layer)

    def run(x, *states):
        out, last = layer(pack_padded_sequence(x, LENGTHS), given(layer, states))
        return (out.data, *listed(last))

    assert tessera.autograd.gradcheck(run, (x, *states), check_forward_ad=True)
    assert tessera.autograd.gradgradcheck(run, (x, *states))


@pytest.mark.parametrize("kind", ["LSTM", "projected LSTM", "GRU"])
def test_function_transforms(kind):
    layer = made(kind, bidirectional=True)
    x = tessera.randn(3, 5, 2, 3, dtype=tessera.float64)
    states = [s.detach() for s in inputs(layer, 2)[1]]

    def packed(v):  # a PackedSequence reads its sizes, which transforms keep
        kind = {"LSTM": 0, "GRU": 1}[layer.mode]
        return tessera._rnn_layers(v.flatten(0, 1)[:8], states, list(layer.parameters()), kind, True, 0.0, True,
                                   [2, 2, 2, 1, 1])[0]  # fmt: skip

    run = {"whole": lambda v: layer(v)[0], "packed": packed}
    for name, f in run.items():
        want = tessera.stack([f(v) for v in x])
        tessera.testing.assert_close(tessera.vmap(f)(x), want, rtol=1e-12, atol=1e-14, msg=name)
        grads = tessera.vmap(tessera.func.grad(lambda v: (f(v) ** 2).sum()))(x)
        each = tessera.stack([tessera.func.grad(lambda v: (f(v) ** 2).sum())(v) for v in x])
        tessera.testing.assert_close(grads, each, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_types(kind, dtype):
    """Computed in float32, rounded at the end: as near as float32 on the rounded numbers."""
    half = made(kind, dtype=dtype, bidirectional=True)
    wide = copy.deepcopy(half).float()
    x = tessera.randn(5, 4, 3).to(dtype)
    for pack in (lambda v: v, lambda v: pack_padded_sequence(v, LENGTHS)):
        got, want = (layer(pack(v))[0] for layer, v in ((half, x), (wide, x.float())))
        got, want = (v if isinstance(v, tessera.Tensor) else v.data for v in (got, want))
        assert got.dtype == dtype
        # The products of the input are rounded, and the result is.
        tessera.testing.assert_close(got.float(), want, rtol=0, atol=4 * tessera.finfo(dtype).eps)
        got.float().sum().backward()
        want.sum().backward()
        for a, b in zip(half.parameters(), wide.parameters()):
            assert a.grad.dtype == dtype
            scale = b.grad.abs().max().item()
            tessera.testing.assert_close(a.grad.float(), b.grad, rtol=0, atol=8 * tessera.finfo(dtype).eps * scale)


@pytest.mark.parametrize("kind", ["LSTM", "projected LSTM", "GRU"])
def test_same_bits_at_any_number_of_threads(kind):
    results = []
    threads = tessera.get_num_threads()
    try:
        for n in (1, 2, 3):
            tessera.set_num_threads(n)
            layer = made(kind, dtype=tessera.float32, num_layers=2, bidirectional=True)
            x = tessera.randn(20, 33, 3, generator=tessera.Generator().manual_seed(1))
            out = layer(pack_padded_sequence(x, tessera.arange(33, 0, -1).clamp(max=20)))[0].data
            out.square().sum().backward()
            results.append([out.detach(), *(p.grad for p in layer.parameters())])
    finally:
        tessera.set_num_threads(threads)
    for others in results[1:]:
        assert all(tessera.equal(a, b) for a, b in zip(results[0], others))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"batch_sizes": [2, 3]}, "never rise"),
        ({"batch_sizes": [2, 1]}, "add up to 3 rows, but got 5"),
        ({"batch_sizes": [3, 2]}, "begin with 3, but h0 is for 2"),
        ({"h0": (1, 2, 5)}, "gates of width 20"),
        ({"w_hh": (1, 16, 3)}, "w_hh of shape"),
        ({"c0": None}, "c0 goes with an LSTM"),
        ({"kind": 4}, "kind must be"),
        ({"kind": 1, "c0": None, "w_hr": (1, 4, 4)}, "goes with an LSTM only"),
    ],
)
def test_bad_input_of_the_operator(change, message):
    arguments = {"gates": (5, 16), "h0": (1, 2, 4), "c0": (1, 2, 4), "w_hh": (1, 16, 4), "b_hh": None, "w_hr": None}
    arguments |= {"kind": 0, "batch_sizes": [2, 2, 1]} | change
    if arguments["kind"] == 1:
        arguments |= {"gates": (5, 12), "w_hh": (1, 12, 4)}
    arguments = {k: tessera.ones(v) if isinstance(v, tuple) else v for k, v in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        tessera._rnn_layer(**arguments, reverse=False)


@pytest.mark.parametrize("kind, gates", (("LSTMCell", 4), ("GRUCell", 3)))
@pytest.mark.parametrize("bias", (True, False))
def test_cells_without_gradients(kind, gates, bias):
    """The short way, where no gradient is asked for, has the bits of the long one; what does not fit raises."""
    cell = getattr(nn, kind)(5, 7, bias=bias)
    for dtype in (tessera.float32, tessera.float64):
        cell.to(dtype)
        x, state = tessera.randn(3, 5, dtype=dtype), tessera.randn(2, 3, 7, dtype=dtype).unbind(0)
        hx = state if gates == 4 else state[0]
        recorded = cell(x, hx)
        with tessera.no_grad():
            plain = cell(x, hx)
            strided = cell(x.t().contiguous().t(), hx)  # goes the long way
        for a, b, c in zip(*((r if gates == 4 else [r]) for r in (recorded, plain, strided))):
            assert not b.requires_grad and b.is_contiguous() and tessera.equal(a, b) and tessera.equal(b, c)
    with tessera.no_grad(), pytest.raises(RuntimeError):
        cell(tessera.randn(3, 6, dtype=tessera.float64), hx)
    with tessera.no_grad(), pytest.raises(RuntimeError):
        cell(x, tessera.randn(2, 4, 7, dtype=tessera.float64).unbind(0) if gates == 4 else tessera.randn(4, 7))
