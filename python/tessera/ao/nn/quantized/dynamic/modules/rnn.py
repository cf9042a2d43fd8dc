"""Recurrent layers whose products round their input at each call."""

import warnings

import tessera
from tessera import nn
from tessera._root import held_classes
from tessera._root.quantized import _recording
from tessera.nn.utils.rnn import PackedSequence

from ...modules.utils import quantized_weight
from ....qat.modules._base import unprojected
from ...._quantized_ops import PackedWeight, operators
from ...._quantized_scripts import start

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "PackedParameter", "RNNBase", "RNNCell", "RNNCellBase",
           "pack_weight_bias"]  # fmt: skip


def pack_weight_bias(qweight, bias, dtype):
    """A weight of `dtype` (qint8 or float16) with its bias, packed."""
    return (operators.linear_prepack if dtype == tessera.qint8 else operators.linear_prepack_fp16)(qweight, bias)


def _times(x, packed, reduce_range=True):
    if packed.weight().dtype == tessera.float16:
        return operators.linear_dynamic_fp16(x, packed)
    return operators.linear_dynamic(x, packed, reduce_range)


class CellParams:
    """The two packed weights of a cell."""

    def __init__(self, ih, hh):
        self.ih, self.hh = ih, hh

    def __reduce__(self):
        return CellParams, (self.ih, self.hh)


class PackedParameter(nn.Module):
    """Holds a CellParams; the state dict has it as `param`."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        self.param = state_dict.pop(prefix + "param", self.param)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _lstm_step(gates, state):
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_step(inner, hidden, state):
    r, z, n = (a for a in inner.chunk(3, 1))
    hr, hz, hn = hidden.chunk(3, 1)
    update = (z + hz).sigmoid()
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return (new + update * (state[0] - new),)


def _packed_layers(mod, dtype, observers):
    """CellParams of each layer and direction of a float recurrent layer."""
    found = []
    for layer in range(mod.num_layers):
        for suffix in ("", "_reverse") if mod.bidirectional else ("",):
            pair = []
            for kind in ("ih", "hh"):
                weight = getattr(mod, f"weight_{kind}_l{layer}{suffix}")
                bias = getattr(mod, f"bias_{kind}_l{layer}{suffix}", None)
                pair.append(_packed_of(weight, bias, dtype, observers()))
            found.append(CellParams(*pair))
    return found


def _packed_of(weight, bias, dtype, observer):
    observer(weight.detach().float())
    whole = dtype == tessera.float16
    made = weight.detach().float() if whole else quantized_weight(weight, observer)
    return pack_weight_bias(made, None if bias is None else bias.detach(), dtype)


def _found_anew(use_precomputed_fake_quant):
    if use_precomputed_fake_quant:
        warnings.warn("a dynamic recurrent layer finds the scales of its weights anew", stacklevel=3)


class RNNBase(nn.Module):
    """Base of LSTM and GRU. Input (L, N, input_size) or (N, L, input_size), a PackedSequence, or (L, input_size)."""

    _FLOAT_MODULE = nn.RNNBase
    _gates, _states, _version = 4, 2, 2

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, dtype=tessera.qint8
    ):  # fmt: skip
        super().__init__()
        if dtype not in (tessera.qint8, tessera.float16):
            raise RuntimeError(f"Unsupported dtype: {dtype}; expected torch.qint8 or torch.float16")
        if not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")  # fmt: skip
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.dtype, self.version, self.training = bidirectional, dtype, 2, False
        self._gates = 4 if mode == "LSTM" else 3
        sides, cells = 1 + bool(bidirectional), []
        observer = tessera.ao.quantization.observer.default_weight_observer
        for layer in range(num_layers):
            wide = input_size if layer == 0 else hidden_size * sides
            for _ in range(sides):
                rows = self._gates * hidden_size
                bound = hidden_size**-0.5
                pair = [_packed_of(tessera.empty(rows, n).uniform_(-bound, bound), tessera.zeros(rows) if bias else
                                   None, dtype, observer()) for n in (wide, hidden_size)]  # fmt: skip
                cells.append(CellParams(*pair))
        self._take(cells)

    def _take(self, cells):
        self._all_weight_values = nn.ModuleList([PackedParameter(cell) for cell in cells])

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):  # fmt: skip
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def check_input(self, input, batch_sizes):
        """RuntimeError for inputs of the wrong rank or width."""
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                               f"{input.size(-1)}")  # fmt: skip

    def get_expected_hidden_size(self, input, batch_sizes):
        """The shape of a first state."""
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    def check_forward_args(self, input, hidden, batch_sizes):
        """RuntimeError for inputs or states of the wrong shape."""
        self.check_input(input, batch_sizes)
        wanted = self.get_expected_hidden_size(input, batch_sizes)
        for state in hidden if isinstance(hidden, tuple) else (hidden,):
            if tuple(state.shape) != wanted:
                raise RuntimeError(f"Expected hidden size {wanted}, got {tuple(state.shape)}")

    def permute_hidden(self, hx, permutation):
        """The state with its batch in another order; None: as it is."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(h.index_select(1, permutation) for h in hx)
        return hx.index_select(1, permutation)

    def _direction(self, steps, packed, state, backward):
        """(outputs, state) of one layer in one direction: `steps` (N, in) tensors, all of one batch."""
        gates = _times(tessera.cat(steps), packed.ih).split([s.shape[0] for s in steps])
        outputs = [None] * len(steps)
        whole = state
        for t in range(len(steps) - 1, -1, -1) if backward else range(len(steps)):
            count = steps[t].shape[0]
            now = tuple(s[:count] for s in whole)
            recurrent = _times(now[0], packed.hh)
            new = _lstm_step(gates[t] + recurrent, now) if self._gates == 4 else _gru_step(gates[t], recurrent, now)
            whole = tuple(
                n if n.shape[0] == w.shape[0] else tessera.cat([n, w[n.shape[0] :]]) for n, w in zip(new, whole)
            )
            outputs[t] = new[0]
        return outputs, whole

    def _run(self, steps, states):
        sides, last = 1 + bool(self.bidirectional), [[] for _ in states]
        for layer in range(self.num_layers):
            results = []
            for side in range(sides):
                index = layer * sides + side
                state = tuple(s[index] for s in states)
                out, state = self._direction(steps, self._all_weight_values[index].param, state, side == 1)
                results.append(out)
                for kept, s in zip(last, state):
                    kept.append(s)
            steps = results[0] if sides == 1 else [tessera.cat(pair, -1) for pair in zip(*results)]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                steps = [nn.functional.dropout(s, self.dropout) for s in steps]
        return steps, tuple(tessera.stack(kept) for kept in last)

    def forward_impl(self, input, hx, batch_sizes, max_batch_size, sorted_indices):
        """(output, state) of a tensor, or of the data of a PackedSequence with its batch sizes."""
        if hx is None:
            shape = (self.num_layers * (1 + bool(self.bidirectional)), max_batch_size, self.hidden_size)
            hx = tuple(input.new_zeros(shape) for _ in range(self._states))
            hx = hx if self._states == 2 else hx[0]
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        states = hx if isinstance(hx, tuple) else (hx,)
        if batch_sizes is not None:
            steps = list(input.split([int(n) for n in batch_sizes]))
        else:
            steps = list((input.transpose(0, 1) if self.batch_first else input).unbind(0))
        steps, last = self._run(steps, states)
        if batch_sizes is not None:
            output = tessera.cat(steps)
        else:
            output = tessera.stack(steps, 1 if self.batch_first else 0)
        return output, last if self._states == 2 else last[0]

    def forward_tensor(self, input, hx=None):
        """(output, state) of a tensor."""
        if _recording():
            cells = [holder.param for holder in self._all_weight_values]
            config = [self._gates, self.num_layers, int(self.bidirectional), int(self.batch_first)]
            given = () if hx is None else hx if isinstance(hx, tuple) else (hx,)
            output, *state = tessera.ops.quantized.recurrent_dynamic(input, list(given), cells, config)
            return output, tuple(state) if self._states == 2 else state[0]
        size = input.size(0) if self.batch_first else input.size(1)
        return self.forward_impl(input, hx, None, size, None)

    def forward_packed(self, input, hx=None):
        """(output, state) of a PackedSequence."""
        data, sizes, order, back = input
        output, hidden = self.forward_impl(data, hx, sizes, int(sizes[0]), order)
        return PackedSequence(output, sizes, order, back), self.permute_hidden(hidden, back)

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        return self.forward_tensor(input, hx)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float layer; its qconfig says which weights, whose scales are found anew: use_precomputed_fake_quant
        warns. AssertionError for others, NotImplementedError for one with a proj_size.
        """
        _found_anew(use_precomputed_fake_quant)
        if type(mod) not in (nn.LSTM, nn.GRU):
            raise AssertionError("nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        unprojected(mod)
        if getattr(mod, "qconfig", None) is None:
            raise AssertionError("Input float module must have qconfig defined")
        dtype = mod.qconfig.weight().dtype
        if dtype not in (tessera.qint8, tessera.float16):
            raise RuntimeError(f"Unsupported dtype: {dtype}; expected torch.qint8 or torch.float16")
        made = cls(mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
                   mod.bidirectional, dtype)  # fmt: skip
        made._take(_packed_layers(mod, dtype, mod.qconfig.weight))
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """Of a reference layer. NotImplementedError for one with a proj_size."""
        unprojected(ref_mod)
        made = cls(ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias, ref_mod.batch_first,
                   ref_mod.dropout, ref_mod.bidirectional)  # fmt: skip
        cells = []
        for layer in range(ref_mod.num_layers):
            for suffix in ("", "_reverse") if ref_mod.bidirectional else ("",):
                pair = []
                for kind in ("ih", "hh"):
                    name = f"weight_{kind}_l{layer}{suffix}"
                    bias = getattr(ref_mod, f"bias_{kind}_l{layer}{suffix}", None)
                    pair.append(PackedWeight(ref_mod.get_quantized_weight(name), bias))
                cells.append(CellParams(*pair))
        made._take(cells)
        return made

    def _named_weights(self, part):
        found = {}
        for index, holder in enumerate(self._all_weight_values):
            layer, side = divmod(index, 1 + bool(self.bidirectional))
            for kind in ("ih", "hh"):
                value = getattr(holder.param, kind).unpack()[part]
                found[f"{('weight', 'bias')[part]}_{kind}_l{layer}{'_reverse' if side else ''}"] = value
        return found

    def get_weight(self):
        """{name: weight}."""
        return self._named_weights(0)

    def get_bias(self):
        """{name: bias}."""
        return self._named_weights(1)

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}


class LSTM(RNNBase):
    """An LSTM with weights of qint8 or float16; arguments as nn.LSTM, and dtype."""

    _FLOAT_MODULE, _states = nn.LSTM, 2

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """A GRU with weights of qint8 or float16; arguments as nn.GRU, and dtype."""

    _FLOAT_MODULE, _states = nn.GRU, 1

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(nn.Module):
    """Base of the cells: input (N, input_size), state (N, hidden_size)."""

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=tessera.qint8):
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        observer, rows = tessera.ao.quantization.observer.default_weight_observer, num_chunks * hidden_size
        bound = hidden_size**-0.5
        self._packed_weight_ih, self._packed_weight_hh = (
            _packed_of(tessera.empty(rows, n).uniform_(-bound, bound), tessera.zeros(rows) if bias else None, dtype,
                       observer()) for n in (input_size, hidden_size)
        )  # fmt: skip

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        mode = getattr(self, "nonlinearity", "tanh")
        return text if mode == "tanh" else f"{text}, nonlinearity={mode}"

    def _products(self, input, hidden):
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")
        if hidden.size(1) != self.hidden_size or hidden.size(0) != input.size(0):
            raise RuntimeError(f"hidden has inconsistent shape: got {tuple(hidden.shape)}, expected "
                               f"{(input.size(0), self.hidden_size)}")  # fmt: skip
        return _times(input, self._packed_weight_ih), _times(hidden, self._packed_weight_hh)

    def _first(self, input):
        return input.new_zeros(input.size(0), self.hidden_size)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float cell; its qconfig says which weights, whose scales are found anew: use_precomputed_fake_quant
        warns. AssertionError for others.
        """
        _found_anew(use_precomputed_fake_quant)
        if type(mod) not in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
            raise AssertionError("nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, nn.GRUCell "
                                 "and nn.RNNCell")  # fmt: skip
        if getattr(mod, "qconfig", None) is None:
            raise AssertionError("Input float module must have qconfig defined")
        dtype = mod.qconfig.weight().dtype
        more = {"nonlinearity": mod.nonlinearity} if type(mod) is nn.RNNCell else {}
        made = cls(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **more)
        made._packed_weight_ih = _packed_of(mod.weight_ih, mod.bias_ih, dtype, mod.qconfig.weight())
        made._packed_weight_hh = _packed_of(mod.weight_hh, mod.bias_hh, dtype, mod.qconfig.weight())
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """Of a reference cell."""
        more = {"nonlinearity": ref_mod.nonlinearity} if hasattr(ref_mod, "nonlinearity") else {}
        made = cls(ref_mod.input_size, ref_mod.hidden_size, bias=ref_mod.bias, **more)
        made._packed_weight_ih = PackedWeight(ref_mod.get_quantized_weight("weight_ih"), ref_mod.bias_ih)
        made._packed_weight_hh = PackedWeight(ref_mod.get_quantized_weight("weight_hh"), ref_mod.bias_hh)
        return made

    def get_weight(self):
        """{name: weight}."""
        return {"weight_ih": self._packed_weight_ih.weight(), "weight_hh": self._packed_weight_hh.weight()}

    def get_bias(self):
        """{name: bias}."""
        return {"bias_ih": self._packed_weight_ih.bias(), "bias_hh": self._packed_weight_hh.bias()}

    def _weight_bias(self):
        return {"weight": self.get_weight(), "bias": self.get_bias()}

    def set_weight_bias(self, weight_bias_dict):
        """Takes {"weight": {name: weight}, "bias": {name: bias}}."""
        for kind in ("ih", "hh"):
            packed = pack_weight_bias(weight_bias_dict["weight"][f"weight_{kind}"],
                                      weight_bias_dict["bias"][f"bias_{kind}"], self.weight_dtype)  # fmt: skip
            setattr(self, f"_packed_weight_{kind}", packed)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            destination[prefix + name] = getattr(self, name)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, state_dict.pop(prefix + name, getattr(self, name)))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class RNNCell(RNNCellBase):
    """h' = tanh or relu of the products with input and state."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=tessera.qint8):
        super().__init__(input_size, hidden_size, bias, 1, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        inner, hidden = self._products(input, self._first(input) if hx is None else hx)
        return (inner + hidden).tanh() if self.nonlinearity == "tanh" else (inner + hidden).relu()


class LSTMCell(RNNCellBase):
    """A step of an LSTM: (h', c')."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def forward(self, input, hx=None):
        state = (self._first(input),) * 2 if hx is None else hx
        inner, hidden = self._products(input, state[0])
        return _lstm_step(inner + hidden, state)


class GRUCell(RNNCellBase):
    """A step of a GRU: h'."""

    def __init__(self, input_size, hidden_size, bias=True, dtype=tessera.qint8):
        super().__init__(input_size, hidden_size, bias, 3, dtype)

    def forward(self, input, hx=None):
        state = self._first(input) if hx is None else hx
        return _gru_step(*self._products(input, state), (state,))[0]


def recurrent(input, hx, cells, config):
    """[output, *states] of a layer with these cells; hx: its states, or nothing. config: gates, number of layers,
    whether there are two directions, whether batches come first. No dropout: programs run it in inference.
    """
    gates, layers, two, batch_first = config
    cls = LSTM if gates == 4 else GRU
    made = cls.__new__(cls)
    nn.Module.__init__(made)
    made.num_layers, made.bidirectional, made.batch_first, made.dropout = layers, bool(two), bool(batch_first), 0.0
    made.hidden_size, made.input_size = cells[0].hh.weight().shape[1], cells[0].ih.weight().shape[1]
    made._gates = gates
    made._take(cells)
    output, states = made.forward_tensor(input, (tuple(hx) if gates == 4 else hx[0]) if hx else None)
    return [output, *(states if gates == 4 else (states,))]


_TEXT = """def forward(self, input: Tensor, hx: Optional[{hx}] = None) -> Tuple[Tensor, {hx}]:
    cells: List[torch.classes.quantized.CellParams] = []
    for holder in self._all_weight_values:
        cells.append(holder.param)
    states: List[Tensor] = []
    if hx is not None:
        states = {states}
    config = [{gates}, self.num_layers, int(self.bidirectional), int(self.batch_first)]
    made = torch.ops.quantized.recurrent_dynamic(input, states, cells, config)
    return made[0], {made}
"""
_CELL = """def forward(self, input: Tensor, hx: Optional[{hx}] = None) -> {hx}:
    zero = torch.zeros([input.size(0), self.hidden_size], dtype=input.dtype, device=input.device)
    state = {zero}
    if hx is not None:
        state = hx
    if self.weight_dtype == torch.float16:
        a = torch.ops.quantized.linear_dynamic_fp16(input, self._packed_weight_ih)
        b = torch.ops.quantized.linear_dynamic_fp16({first}, self._packed_weight_hh)
    else:
        a = torch.ops.quantized.linear_dynamic(input, self._packed_weight_ih, True)
        b = torch.ops.quantized.linear_dynamic({first}, self._packed_weight_hh, True)
{step}
"""
_LSTM_STEP = """    i, f, g, o = (a + b).chunk(4, 1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell"""
_GRU_STEP = """    r, z, n = a.chunk(3, 1)
    hr, hz, hn = b.chunk(3, 1)
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return new + (z + hz).sigmoid() * (state - new)"""
_RNN_STEP = """    if self.nonlinearity == "tanh":
        return (a + b).tanh()
    return (a + b).relu()"""
_TWO, _ONE = {"hx": "Tuple[Tensor, Tensor]"}, {"hx": "Tensor", "zero": "zero", "first": "state"}
held_classes.CLASSES[CellParams] = lambda: start()[1]
held_classes.METHODS.update({
    (LSTM, "forward"): _TEXT.format(**_TWO, states="[hx[0], hx[1]]", gates=4, made="(made[1], made[2])"),
    (GRU, "forward"): _TEXT.format(hx="Tensor", states="[hx]", gates=3, made="made[1]"),
    (LSTMCell, "forward"): _CELL.format(**_TWO, zero="(zero, zero)", first="state[0]", step=_LSTM_STEP),
    (GRUCell, "forward"): _CELL.format(**_ONE, step=_GRU_STEP),
    (RNNCell, "forward"): _CELL.format(**_ONE, step=_RNN_STEP),
})  # fmt: skip
