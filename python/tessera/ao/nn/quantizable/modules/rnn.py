"""Recurrent layers of parts that observers can watch."""

import warnings

import tessera
from tessera import nn

from ...qat.modules._base import unprojected

__all__ = ["LSTM", "LSTMCell"]


class LSTMCell(nn.Module):
    """A step of an LSTM of Linear layers and FloatFunctionals. split_gates: a Linear for each gate."""

    _FLOAT_MODULE = nn.LSTMCell

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        made, FloatFunctional = (
            {"bias": bias, "device": device, "dtype": dtype},
            tessera.ao.nn.quantized.FloatFunctional,
        )
        self.input_size, self.hidden_size, self.bias, self.split_gates = input_dim, hidden_dim, bias, split_gates
        if split_gates:
            gates = ("input", "forget", "cell", "output")
            self.igates = nn.ModuleDict({g: nn.Linear(input_dim, hidden_dim, **made) for g in gates})
            self.hgates = nn.ModuleDict({g: nn.Linear(hidden_dim, hidden_dim, **made) for g in gates})
            self.gates = nn.ModuleDict({g: FloatFunctional() for g in gates})
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, **made)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, **made)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = nn.Sigmoid(), nn.Sigmoid()
        self.cell_gate, self.output_gate = nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = tessera.quint8

    def forward(self, x, hidden=None):
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        if self.split_gates:
            parts = [self.gates[g].add(self.igates[g](x), self.hgates[g](hx)) for g in self.gates]
        else:
            parts = self.gates.add(self.igates(x), self.hgates(hx)).chunk(4, 1)
        i, f = self.input_gate(parts[0]), self.forget_gate(parts[1])
        g, o = self.cell_gate(parts[2]), self.output_gate(parts[3])
        cell = self.fgate_cx_igate_cgate.add(self.fgate_cx.mul(f, cx), self.igate_cgate.mul(i, g))
        return self.ogate_cy.mul(o, tessera.tanh(cell)), cell

    def initialize_hidden(self, batch_size, is_quantized=False):
        """Zeros (batch_size, hidden_size) as first (h, c)."""
        states = tessera.zeros(batch_size, self.hidden_size), tessera.zeros(batch_size, self.hidden_size)
        if not is_quantized:
            return states
        kinds = ((self.initial_hidden_state_qparams, self.hidden_state_dtype),
                 (self.initial_cell_state_qparams, self.cell_state_dtype))  # fmt: skip
        return tuple(tessera.quantize_per_tensor(s, *p, dtype) for s, (p, dtype) in zip(states, kinds))

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """With these weights (4 hidden, input) and (4 hidden, hidden), and biases (4 hidden)."""
        if (bi is None) != (bh is None):
            raise AssertionError("Both biases should be either None or not None")
        made = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        for layers, weight, bias in ((made.igates, wi, bi), (made.hgates, wh, bh)):
            if not split_gates:
                layers.weight = nn.Parameter(weight)
                if bias is not None:
                    layers.bias = nn.Parameter(bias)
                continue
            for layer, w, b in zip(
                layers.values(), weight.chunk(4), bias.chunk(4) if bias is not None else (None,) * 4
            ):
                layer.weight = nn.Parameter(w)
                if b is not None:
                    layer.bias = nn.Parameter(b)
        return made

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        """Of a float LSTMCell. AssertionError for others."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"expected an LSTMCell, but got {type(other).__name__}")
        made = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates)
        if hasattr(other, "qconfig"):
            made.qconfig = other.qconfig
        if use_precomputed_fake_quant and hasattr(other, "activation_post_process"):
            made.activation_post_process = other.activation_post_process
        return made


class _Direction(nn.Module):
    """One layer in one direction."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, steps, hidden):
        out = []
        for step in steps:
            hidden = self.cell(step, hidden)
            out.append(hidden[0])
        return out, hidden


class LSTM(nn.Module):
    """An LSTM of cells that observers can watch; arguments as nn.LSTM (no proj_size). dropout: of no effect, which is
    warned of.
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        device=None, dtype=None, *, split_gates=False
    ):  # fmt: skip
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")  # fmt: skip
        if dropout:
            warnings.warn("a quantizable LSTM drops nothing: train an nn.LSTM with dropout and prepare() it then",
                          stacklevel=2)  # fmt: skip
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.training = False
        sides, self.layers = 1 + bool(bidirectional), nn.ModuleList()
        for layer in range(num_layers):
            wide = input_size if layer == 0 else hidden_size * sides
            self.layers.append(nn.ModuleList([
                _Direction(LSTMCell(wide, hidden_size, bias, device, dtype, split_gates=split_gates))
                for _ in range(sides)
            ]))  # fmt: skip

    def forward(self, x, hidden=None):
        steps = list((x.transpose(0, 1) if self.batch_first else x).unbind(0))
        sides, last = 1 + bool(self.bidirectional), []
        for index, layer in enumerate(self.layers):
            results = []
            for side, direction in enumerate(layer):
                at = index * sides + side
                state = None if hidden is None else (hidden[0][at], hidden[1][at])
                if state is not None and x.is_quantized and not state[0].is_quantized:
                    cell = direction.cell
                    kinds = (cell.initial_hidden_state_qparams, cell.initial_cell_state_qparams)
                    state = tuple(tessera.quantize_per_tensor(s, *p, tessera.quint8) for s, p in zip(state, kinds))
                out, state = direction(steps[::-1] if side else steps, state)
                results.append(out[::-1] if side else out)
                last.append(state)
            steps = results[0] if sides == 1 else [tessera.cat(pair, -1) for pair in zip(*results)]
        output = tessera.stack(steps, 1 if self.batch_first else 0)
        return output, tuple(tessera.stack([state[i] for state in last]) for i in (0, 1))

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        """Of a float LSTM with a qconfig (its own, or this one). AssertionError for others, NotImplementedError for
        one with a proj_size.
        """
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"expected an LSTM, but got {type(other).__name__}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("expected an LSTM with a qconfig, or a qconfig")
        unprojected(other)
        made = cls(other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout,
                   other.bidirectional, split_gates=split_gates)  # fmt: skip
        made.qconfig = getattr(other, "qconfig", qconfig)
        for index, layer in enumerate(made.layers):
            for side, direction in enumerate(layer):
                end = f"_l{index}{'_reverse' if side else ''}"
                direction.cell = LSTMCell.from_params(
                    getattr(other, "weight_ih" + end), getattr(other, "weight_hh" + end),
                    getattr(other, "bias_ih" + end, None), getattr(other, "bias_hh" + end, None), split_gates,
                )  # fmt: skip
        made.train(other.training)
        return made

    @classmethod
    def from_observed(cls, other):
        """NotImplementedError: quantized.LSTM is made of an observed one."""
        raise NotImplementedError("from_observed: call torch.ao.nn.quantized.LSTM.from_observed(other)")
