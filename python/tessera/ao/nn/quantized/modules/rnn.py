"""Recurrent layers on integers."""

import tessera

from ...quantizable.modules import rnn

__all__ = ["LSTM"]


class LSTM(rnn.LSTM):
    """A quantizable LSTM whose parts are quantized; from_observed() makes it."""

    _FLOAT_MODULE = rnn.LSTM

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args, **kwargs):
        """NotImplementedError: it is made of an observed one."""
        raise NotImplementedError("from_float: expected an observed LSTM; prepare() makes one of a float LSTM "
                                  f"(got {len(args) + len(kwargs)} arguments)")  # fmt: skip

    @classmethod
    def from_observed(cls, other):
        """Of a quantizable LSTM whose parts were observed. AssertionError for others."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"expected a quantizable LSTM, but got {type(other).__name__}")
        for layer in other.layers:
            for direction in layer:
                cell = direction.cell
                for functional, name in ((cell.ogate_cy, "hidden"), (cell.fgate_cx_igate_cgate, "cell")):
                    scale, zero_point = functional.activation_post_process.calculate_qparams()
                    setattr(cell, f"initial_{name}_state_qparams", (float(scale), int(zero_point)))
        made = tessera.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
        made.__class__ = cls
        return made
