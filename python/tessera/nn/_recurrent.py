"""The functions torch.lstm, gru, rnn_tanh, rnn_relu and their cells, which take a layer's weights as a list: what they
compute is the operators _rnn_layers and _rnn_cell.
"""

import tessera

KINDS = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}  # of the operators
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _check_weights(name, params, has_biases, layers, directions):
    """RuntimeError unless there are as many parameters as the layers have."""
    groups, least = layers * directions, 4 if has_biases else 2
    size, rest = divmod(len(params), max(groups, 1))
    if groups < 1 or rest or size not in (least, least + 1):
        raise RuntimeError(
            f"{name}(): {layers} layers in {directions} directions {'with' if has_biases else 'without'} biases have "
            f"{least} weights each ({least + 1} with a projection), got a list of {len(params)}"
        )


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
        _check_weights(name, params, has_biases, layers, 2 if bidirectional else 1)
        states, dropout = list(hx) if mode == "LSTM" else [hx], dropout if train else 0.0
        if batch_sizes is not None:
            x, batch_first, sizes = input, False, batch_sizes.tolist()
        elif input.dim() != 3:
            raise RuntimeError(f"{name}(): input must have 3 dimensions, got {input.dim()}")
        else:
            x, sizes = input.transpose(0, 1) if batch_first else input, []
            if x.size(0) == 0:
                raise RuntimeError(
                    f"{name}(): expected sequence length to be larger than 0, got input of {list(input.shape)}"
                )
        out, *last = tessera._rnn_layers(
            x, states, list(params), KINDS[mode], has_biases, dropout, bidirectional, sizes
        )
        return (out.transpose(0, 1) if batch_first else out, *last[: len(states)])

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
        states = list(hx) if mode == "LSTM" else [hx]
        h, c = tessera._rnn_cell(input, states, w_ih, w_hh, b_ih, b_hh, KINDS[mode])
        return (h, c) if mode == "LSTM" else h

    step.__name__ = step.__qualname__ = name
    state = "the pair (h, c)" if mode == "LSTM" else "h"
    step.__doc__ = f"""One step of nn.{mode.split("_")[0]}Cell: input (N, input), hx: {state} of (N, hidden), w_ih
    (gates hidden, input), w_hh (gates hidden, hidden) and biases (gates hidden).
    """
    return step


lstm, gru, rnn_tanh, rnn_relu = map(_sequence, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))
lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell = map(_cell, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))
