"""Recurrent layers in cuDNN: their numbers for the kinds of layers, and fp32_precision, how exact they are."""

import sys

from tessera.backends import _precision

_MODES = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}


def get_cudnn_mode(mode):
    """cuDNN's number of a kind of layer: "RNN_RELU", "RNN_TANH", "LSTM" or "GRU".

    Raises: RuntimeError for another one.
    """
    if mode not in _MODES:
        raise RuntimeError(f"Unknown mode: {mode}. Expected one of {', '.join(_MODES)}")
    return _MODES[mode]


_precision.make_family(sys.modules[__name__], "cuda", "rnn")
