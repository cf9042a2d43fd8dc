"""Reference layers that recur."""

import tessera
from tessera import nn

from ._weights import _DEFAULTS, ReferenceQuantizedModule

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNNCell"]


class _Recurrent(ReferenceQuantizedModule):
    """Float layers with weights of many names, each with its parameters."""

    def _parameters_of(self, given, device):
        for name in [n for n, _ in self.named_parameters() if n.startswith("weight")]:
            self._keep(name, {**_DEFAULTS, **((given or {}).get(name) or {})}, device)

    def get_quantized_weight(self, wn):
        """The weight of this name as a quantized tensor."""
        return self._of(wn, getattr(self, wn))

    def get_weight(self, wn):
        """The numbers that the quantized weight of this name stands for."""
        return self.get_quantized_weight(wn).dequantize()

    def get_quantized_weight_bias_dict(self):
        """{"weight": {name: quantized weight}, "bias": {name: bias}}."""
        names = [n for n, _ in self.named_parameters()]
        return {
            "weight": {n: self.get_quantized_weight(n) for n in names if n.startswith("weight")},
            "bias": {n: getattr(self, n) for n in names if n.startswith("bias")},
        }

    def get_flat_weights(self):
        """The numbers of all parameters in the order of the float layer."""
        return [self.get_weight(n) if n.startswith("weight") else getattr(self, n) for n, _ in self.named_parameters()]

    def forward(self, input, hx=None):
        weights = {n: self.get_weight(n) for n, _ in self.named_parameters() if n.startswith("weight")}
        return tessera.func.functional_call(_Float(self), {f"inner.{n}": w for n, w in weights.items()}, (input, hx))

    @classmethod
    def from_float(cls, mod, weight_qparams_dict):
        """Of a float layer, with the parameters of each weight."""
        made = cls(*cls._first(mod), **cls._rest(mod), weight_qparams_dict=weight_qparams_dict)
        for name, value in mod.named_parameters():
            made._parameters[name] = nn.Parameter(value.detach(), requires_grad=False)
        return made


class _Float(nn.Module):
    """Runs the float forward of a reference layer."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input, hx):
        return self.inner._KIND.forward(self.inner, input, hx)


class _Cell(_Recurrent):
    _first = staticmethod(lambda mod: (mod.input_size, mod.hidden_size))
    _rest = staticmethod(lambda mod: {"bias": mod.bias})

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None):
        self._KIND.__init__(self, input_size, hidden_size, bias, device=device, dtype=dtype)
        self._parameters_of(weight_qparams_dict, device)


class RNNCell(_Cell, nn.RNNCell):
    """An RNNCell computed with the numbers that quantized weights stand for."""

    _KIND = nn.RNNCell
    _rest = staticmethod(lambda mod: {"bias": mod.bias, "nonlinearity": mod.nonlinearity})

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None,
        weight_qparams_dict=None
    ):  # fmt: skip
        nn.RNNCell.__init__(self, input_size, hidden_size, bias, nonlinearity, device=device, dtype=dtype)
        self._parameters_of(weight_qparams_dict, device)


class LSTMCell(_Cell, nn.LSTMCell):
    """An LSTMCell computed with the numbers that quantized weights stand for."""

    _KIND = nn.LSTMCell

    @classmethod
    def from_float(cls, mod, weight_qparams_dict, use_precomputed_fake_quant=False):
        """Of a float cell, with the parameters of each weight; use_precomputed_fake_quant must be False."""
        if use_precomputed_fake_quant:
            raise NotImplementedError("an LSTMCell has no fake quantizer whose bounds could be taken")
        return super().from_float(mod, weight_qparams_dict)


class GRUCell(_Cell, nn.GRUCell):
    """A GRUCell computed with the numbers that quantized weights stand for."""

    _KIND = nn.GRUCell


class _Layers(_Recurrent):
    _first = staticmethod(lambda mod: (mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
                                       mod.dropout, mod.bidirectional))  # fmt: skip
    _rest = staticmethod(lambda mod: {"proj_size": mod.proj_size})

    def __init__(self, *args, **kwargs):
        given = kwargs.pop("weight_qparams_dict", None)
        self._KIND.__init__(self, *args, **kwargs)
        self._parameters_of(given, kwargs.get("device"))


class LSTM(_Layers, nn.LSTM):
    """An LSTM computed with the numbers that quantized weights stand for."""

    _KIND = nn.LSTM


class GRU(_Layers, nn.GRU):
    """A GRU computed with the numbers that quantized weights stand for."""

    _KIND = nn.GRU
