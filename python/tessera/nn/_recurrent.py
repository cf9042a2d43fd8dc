"""The mathematics of recurrent layers, and the functions torch.lstm, gru, rnn_tanh, rnn_relu and their cells, which
take a layer's weights as a list.
"""

import itertools

import tessera
from tessera.nn import functional as F

# ---- one step of each kind: (projected input, state, weights) -> state; a state is a tuple whose first tensor is the
# output -----------------------------


def _rnn_step(activation):
    def step(x, state, w_hh, b_hh, w_hr):
        return (activation(x + F.linear(state[0], w_hh, b_hh)),)

    return step


def _lstm_step(x, state, w_hh, b_hh, w_hr):
    h, c = state
    i, f, g, o = (x + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if w_hr is None else F.linear(h, w_hr)), c


def _gru_step(x, state, w_hh, b_hh, w_hr):
    h = state[0]
    x_r, x_z, x_n = x.chunk(3, -1)
    h_r, h_z, h_n = F.linear(h, w_hh, b_hh).chunk(3, -1)
    z = (x_z + h_z).sigmoid()
    n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return ((h - n) * z + n,)


STEPS = {
    "RNN_TANH": _rnn_step(tessera.tanh),
    "RNN_RELU": _rnn_step(tessera.relu),
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
# What the operator computes in.
_ARITHMETIC = {
    tessera.float32: tessera.float32,
    tessera.float64: tessera.float64,
    tessera.float16: tessera.float32,
    tessera.bfloat16: tessera.float32,
}
_KINDS = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}  # of the operator _rnn_layer


def _by_operator(mode, gates, steps, state, w_hh, b_hh, reverse):
    """`steps` steps of as many sequences each; gates: the projected rows, step by step. Returns (outputs as rows, the
    state behind the last one).
    """
    out, h, c, _, _ = tessera._rnn_layer(
        gates.unflatten(0, (steps, len(state[0]))),
        state[0],
        state[1] if len(state) > 1 else None,
        w_hh,
        b_hh,
        _KINDS[mode],
        reverse,
        for_backward=tessera.is_grad_enabled(),
    )
    return out.flatten(0, 1), (h, c)[: len(state)]


def _by_steps(mode, gates, steps, state, w_hh, b_hh, reverse, w_hr):
    """The same for devices, dtypes and projections that the operator does not know."""
    step, outputs = STEPS[mode], []
    for piece in reversed(gates.chunk(steps)) if reverse else gates.chunk(steps):
        state = step(piece, state, w_hh, b_hh, w_hr)
        outputs.append(state[0])
    return tessera.cat(outputs[::-1] if reverse else outputs), state


def _run_direction(mode, x, batch_sizes, start, weights, reverse):
    """One layer in one direction over time-major rows.

    x: (sum of batch_sizes, input), the rows of step t after those of t - 1, sequences sorted by falling length. start:
        states (N, .). Returns the outputs in the same layout and the last state of each sequence.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    arithmetic = _ARITHMETIC.get(w_hh.dtype)
    fits = x.dtype == w_hh.dtype or tessera.is_autocast_enabled("cpu")
    whole = w_hr is None and x.device.type == "cpu" and arithmetic is not None and fits
    if whole and mode != "GRU" and b_hh is not None:  # one bias for both
        b_ih, b_hh = None, b_ih + b_hh
    gates, start = F.linear(x, w_ih, b_ih), tuple(start)
    # Under autocast the products of the input are in a lower precision, and so is the result; the steps are not.
    dtype = x.dtype if mode == "GRU" else gates.dtype
    if whole and {dtype, gates.dtype, w_hh.dtype} != {arithmetic}:
        gates, w_hh, *start = (t.to(arithmetic) for t in (gates, w_hh, *start))
        b_hh = None if b_hh is None else b_hh.to(arithmetic)
    # Neighbouring steps of as many sequences are taken together.
    runs = [(n, len(list(same))) for n, same in itertools.groupby(batch_sizes)]
    pieces = gates.split([n * steps for n, steps in runs])
    outputs = [None] * len(runs)
    finished = []  # states of the sequences that ended, the shortest first
    state = tuple(s[:0] for s in start) if reverse else tuple(start)
    for k in range(len(runs) - 1, -1, -1) if reverse else range(len(runs)):
        (n, steps), have = runs[k], state[0].shape[0]
        if n > have:
            state = (
                tuple(tessera.cat([s, first[have:n]]) for s, first in zip(state, start))
                if have
                else tuple(first[:n] for first in start)
            )
        elif n < have:
            finished.append(tuple(s[n:] for s in state))
            state = tuple(s[:n] for s in state)
        if whole:
            outputs[k], state = _by_operator(mode, pieces[k], steps, state, w_hh, b_hh, reverse)
        else:
            outputs[k], state = _by_steps(mode, pieces[k], steps, state, w_hh, b_hh, reverse, w_hr)
    if finished:
        finished.append(state)
        state = tuple(tessera.cat([part[i] for part in reversed(finished)]) for i in range(len(state)))
    out = outputs[0] if len(outputs) == 1 else tessera.cat(outputs)
    return (out.to(dtype), tuple(s.to(dtype) for s in state)) if whole else (out, state)


def run_layers(mode, x, batch_sizes, states, weights, directions, dropout):
    """All layers over time-major rows.

    x: (rows, input). states: tuple of (layers * directions, N, .). weights: (w_ih, w_hh, b_ih, b_hh, w_hr) for each
        layer and direction, None for what it lacks. dropout: between layers. Returns the outputs and the last states.
    """
    last = []
    for k in range(0, len(weights), directions):
        outs = []
        for d in range(directions):
            out, state = _run_direction(mode, x, batch_sizes, [s[k + d] for s in states], weights[k + d], d == 1)
            outs.append(out)
            last.append(state)
        x = outs[0] if directions == 1 else tessera.cat(outs, -1)
        if dropout and k + directions < len(weights):
            x = F.dropout(x, dropout, True)
    return x, tuple(tessera.stack([s[i] for s in last]) for i in range(len(states)))


# ---- functions ------------------------------------------------------------------------------------------------------


def _listed_weights(name, params, has_biases, layers, directions):
    """The list of a layer's parameters, as run_layers wants them."""
    params, groups = list(params), layers * directions
    least = 4 if has_biases else 2
    size, rest = divmod(len(params), max(groups, 1))
    if groups < 1 or rest or size not in (least, least + 1):
        raise RuntimeError(
            f"{name}(): {layers} layers in {directions} directions {'with' if has_biases else 'without'} biases have "
            f"{least} weights each ({least + 1} with a projection), got a list of {len(params)}"
        )
    made = []
    for at in range(0, len(params), size):
        w_ih, w_hh, *others = params[at : at + size]
        b_ih, b_hh = others[:2] if has_biases else (None, None)
        made.append((w_ih, w_hh, b_ih, b_hh, others[-1] if size > least else None))
    return made


def _sequence(mode):
    name = mode.lower()

    def run(input, *args):
        if len(args) == 8 and isinstance(args[7], bool) and isinstance(args[2], bool):
            hx, params, has_biases, layers, dropout, train, bidirectional, batch_first = args
            batch_sizes = None
        elif len(args) == 8:
            batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional = args
        else:
            raise TypeError(
                f"{name}(): expected (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, "
                "batch_first) or (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, "
                f"bidirectional), got {len(args) + 1} arguments"
            )
        directions = 2 if bidirectional else 1
        weights = _listed_weights(name, params, has_biases, layers, directions)
        states, dropout = tuple(hx) if mode == "LSTM" else (hx,), dropout if train else 0.0
        if batch_sizes is not None:
            out, last = run_layers(mode, input, batch_sizes.tolist(), states, weights, directions, dropout)
            return (out, *last)
        if input.dim() != 3:
            raise RuntimeError(f"{name}(): input must have 3 dimensions, got {input.dim()}")
        x = input.transpose(0, 1) if batch_first else input
        steps, n = x.shape[:2]
        if steps == 0:
            raise RuntimeError(
                f"{name}(): expected sequence length to be larger than 0, got input of {list(input.shape)}"
            )
        rows = x.reshape(steps * n, x.size(2))
        out, last = run_layers(mode, rows, [n] * steps, states, weights, directions, dropout)
        out = out.unflatten(0, (steps, n))
        return (out.transpose(0, 1) if batch_first else out, *last)

    run.__name__ = run.__qualname__ = name
    states = "hx: the pair (h, c)" if mode == "LSTM" else "hx: h"
    run.__doc__ = f"""{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        -> (output, last state ...), or {name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
        bidirectional) for packed data: what nn.{mode.split("_")[0]} computes, with its weights as a list.

    {states}, each (layers * directions, N, hidden). params: weight_ih, weight_hh, then bias_ih, bias_hh with
        has_biases, for each layer and direction. Raises RuntimeError for a list that does not fit.
    """
    return run


def _cell(mode):
    name = f"{mode.lower()}_cell"

    def step(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        states = tuple(hx) if mode == "LSTM" else (hx,)
        out = STEPS[mode](F.linear(input, w_ih, b_ih), states, w_hh, b_hh, None)
        return out if mode == "LSTM" else out[0]

    step.__name__ = step.__qualname__ = name
    state = "the pair (h, c)" if mode == "LSTM" else "h"
    step.__doc__ = f"""One step of nn.{mode.split("_")[0]}Cell: input (N, input), hx: {state} of (N, hidden), w_ih
    (gates hidden, input), w_hh (gates hidden, hidden) and biases (gates hidden).
    """
    return step


lstm, gru, rnn_tanh, rnn_relu = map(_sequence, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))
lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell = map(_cell, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))
