"""Recurrent layers and cells."""

import warnings

import tessera
from tessera.nn import _recurrent
from tessera.nn.parameter import Parameter

from ._declared import layer
from ._parts import FIRST_VALUES
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """Deprecated: use index_select."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


@layer(
    "mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, "
    "proj_size=0, device=None, dtype=None",
    shows="input_size hidden_size proj_size=? num_layers=? bias=? batch_first=? dropout=? bidirectional=?",
    sets={"dropout": "dropout"},
    then="self._settle(dropout, device, dtype)",
)
class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    Parameters of layer k: weight_ih_l{k} (gates hidden, input), weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, with
        proj_size weight_hr_l{k}; the backward direction's
    names end in _reverse. All start uniform in +-1 / sqrt(hidden_size).
    """

    def _settle(self, dropout, device, dtype):
        if not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        for name in ("bias", "batch_first", "bidirectional"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} should be of type bool, got: {type(getattr(self, name)).__name__}")
        hidden, layers, projected = self.hidden_size, self.num_layers, self.proj_size
        if dropout > 0 and layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={layers}",
                stacklevel=4,
            )
        if not isinstance(hidden, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden).__name__}")
        for wrong, message in (
            (hidden <= 0, "hidden_size must be greater than zero"),
            (layers <= 0, "num_layers must be greater than zero"),
            (projected < 0, "proj_size should be a positive integer or zero to disable projections"),
            (projected >= hidden, "proj_size has to be smaller than hidden_size"),
            (self.mode not in _recurrent.GATES, f"Unrecognized RNN mode: {self.mode}"),
        ):
            if wrong:
                raise ValueError(message)
        self.dropout = float(dropout)
        self._make_weights(device, dtype)
        self.reset_parameters()

    def _make_weights(self, device, dtype):
        rows = _recurrent.GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        self._all_weights = []

        def new(*shape):
            return Parameter(tessera.empty(shape, device=device, dtype=dtype))

        for level in range(self.num_layers):
            width = self.input_size if level == 0 else out * directions
            for suffix in ("", "_reverse")[:directions]:
                tag = f"_l{level}{suffix}"
                made = [("weight_ih", new(rows, width)), ("weight_hh", new(rows, out))]
                if self.bias:
                    made += [("bias_ih", new(rows)), ("bias_hh", new(rows))]
                if self.proj_size:
                    made.append(("weight_hr", new(self.proj_size, self.hidden_size)))
                for name, value in made:
                    setattr(self, name + tag, value)
                self._all_weights.append([name + tag for name, _ in made])

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights):
        # Others (higher) put tensors that are no parameters in their place, after they did so in _parameters.
        for name, weight in zip(self._flat_weights_names, weights):
            if getattr(self, name, None) is not weight:
                self._parameters[name] = weight

    @property
    def all_weights(self):
        """For each layer and direction the list of its parameters."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    _computed = ("_flat_weights_names", "_flat_weights", "all_weights")  # here; PyTorch wants them in its pickles

    def __getstate__(self):
        return {**vars(self), "_flat_weights_names": self._flat_weights_names, "_flat_weights": self._flat_weights}

    def __setstate__(self, d):
        super().__setstate__(d)
        for name in self._computed:
            self.__dict__.pop(name, None)
        if "all_weights" in d:
            self._all_weights = d["all_weights"]
        self.__dict__.setdefault("proj_size", 0)

    def flatten_parameters(self):
        """Makes the parameters one block of memory for cuDNN; nothing to do on the CPU."""

    def reset_parameters(self):
        """Draws new weights."""
        for parameter in self.parameters():
            FIRST_VALUES["hidden_size"](parameter, self)

    def check_input(self, input, batch_sizes):
        """RuntimeError or ValueError if the input's shape or dtype does not fit."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not tessera._C._is_any_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert "
                f"model: model.to({input.dtype})"
            )
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input, batch_sizes):
        """(layers * directions, N, output size)."""
        n = int(batch_sizes[0]) if batch_sizes is not None else input.size(0 if self.batch_first else 1)
        return (self.num_layers * (2 if self.bidirectional else 1), n, self.proj_size or self.hidden_size)

    def get_expected_cell_size(self, input, batch_sizes):
        """(layers * directions, N, hidden size)."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """RuntimeError if hx does not have the expected shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Checks the input and the initial state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The state in another order of the sequences."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def _run(self, x, states, batch_sizes=()):
        """All layers; x (steps, N, input), or with batch_sizes (rows, input), states: tuple of (layers * directions, N,
        .). Returns the outputs and the last states.
        """
        weights = [getattr(self, name) for names in self._all_weights for name in names]
        out, *last = tessera._rnn_layers(
            x,
            list(states),
            weights,
            _recurrent.KINDS[self.mode],
            bool(self.bias),
            self.dropout if self.training else 0.0,
            bool(self.bidirectional),
            batch_sizes,
        )
        return out, tuple(last[: len(states)])

    def _documented(self, x, states):
        """As _run, by the operator that programs are written in; x as the layer was given it."""
        op = getattr(tessera.ops.aten, self.mode.lower()).input
        weights = [getattr(self, name) for names in self._all_weights for name in names]
        state = list(states) if self.mode == "LSTM" else states[0]
        settings = self.num_layers, float(self.dropout), self.training, bool(self.bidirectional), self.batch_first
        out, *last = op(x, state, weights, bool(self.bias), *settings)
        return out, tuple(last)

    def _zeros(self, input, shape):
        return tessera.zeros(shape, dtype=input.dtype, device=input.device)

    def _check_unbatched(self, input, hx):
        """The state for a 2-D input with a batch dim; RuntimeError if input and state disagree about it."""
        name = self._get_name()
        if input.dim() not in (2, 3):
            tensor = "tensor " if name == "RNN" else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D {tensor}instead")
        batched = input.dim() == 3
        if hx is None:
            return batched, None
        rank = 3 if batched else 2
        for h in hx:
            if h.dim() != rank:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                if len(hx) == 1:
                    raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {h.dim()}-D tensor")
                ranks = tuple(h.dim() for h in hx)
                raise RuntimeError(f"For {kind} input, hx and cx should also be {rank}-D but got {ranks}-D tensors")
        return batched, (hx if batched else tuple(h.unsqueeze(1) for h in hx))

    def _forward(self, input, hx, check):
        """forward() with the state as a tuple. Returns (output or PackedSequence, tuple of states)."""
        from tessera.nn.utils.rnn import PackedSequence, sizes_of_batches

        n_states = 2 if self.mode == "LSTM" else 1
        packed = isinstance(input, PackedSequence)
        if packed:
            data, batch_sizes, sorted_indices, unsorted_indices = input
            sizes, batched = sizes_of_batches(data, batch_sizes), True
            if hx is not None and sorted_indices is not None:
                hx = tuple(_apply_permutation(h, sorted_indices) for h in hx)
        else:
            batched, hx = self._check_unbatched(input, hx)
            data, batch_sizes = input, None
            if not batched:
                data = data.unsqueeze(0 if self.batch_first else 1)
        shapes = [self.get_expected_hidden_size(data, batch_sizes), self.get_expected_cell_size(data, batch_sizes)][
            :n_states
        ]
        if hx is None:
            self.check_input(data, batch_sizes)
            hx = tuple(self._zeros(data, s) for s in shapes)
        else:
            check(data, hx, batch_sizes)
        if packed:
            out, states = self._run(data, hx, sizes)
            if unsorted_indices is not None:
                states = tuple(_apply_permutation(s, unsorted_indices) for s in states)
            return PackedSequence(out, batch_sizes, sorted_indices, unsorted_indices), states
        if data.size(1 if self.batch_first else 0) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        if tessera.compiler.is_exporting():
            out, states = self._documented(data, hx)
        else:
            out, states = self._run(data.transpose(0, 1) if self.batch_first else data, hx)
            out = out.transpose(0, 1) if self.batch_first else out
        if not batched:
            out = out.squeeze(0 if self.batch_first else 1)
            states = tuple(s.squeeze(1) for s in states)
        return out, states


class _SingleState(RNNBase):
    def forward(self, input, hx=None):
        out, states = self._forward(
            input, None if hx is None else (hx,), lambda data, h, sizes: self.check_forward_args(data, h[0], sizes)
        )
        return out, states[0]


def _mode(kind, further, nonlinearity=None):
    """The name of the kind of steps. Raises for what only LSTM or nobody takes."""
    if "proj_size" in further:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if further:
        raise TypeError(f"{kind}.__init__() got an unexpected keyword argument '{next(iter(further))}'")
    if nonlinearity is None:
        return kind
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"{kind}_{nonlinearity.upper()}"


@layer(
    "input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False, dropout=0.0, "
    "bidirectional=False, device=None, dtype=None, **kwargs",
    base="_mode('RNN', kwargs, nonlinearity), input_size, hidden_size, num_layers, bias, batch_first, dropout, "
    "bidirectional, 0, device, dtype",
    sets={"nonlinearity": "nonlinearity"},
)
class RNN(_SingleState):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) (nonlinearity 'tanh' or 'relu'): input (L, N, H_in) -> output (L, N, D
    H_out), last h (D layers, N, H_out).
    """


@layer(
    "input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, "
    "proj_size=0, device=None, dtype=None",
    base="'LSTM', input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, "
    "dtype",
)
class LSTM(RNNBase):
    """Long short-term memory (gates i, f, g, o): input (L, N, H_in), state (h, c) -> output (L, N, D H_out), (h, c);
    proj_size: size of a projection of h.
    """

    def check_forward_args(self, input, hidden, batch_sizes):
        """Checks the input and both initial states."""
        self.check_input(input, batch_sizes)
        for i, expected in enumerate((self.get_expected_hidden_size, self.get_expected_cell_size)):
            self.check_hidden_size(hidden[i], expected(input, batch_sizes), f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        """The states in another order of the sequences."""
        return hx if permutation is None else tuple(_apply_permutation(h, permutation) for h in hx)

    def forward(self, input, hx=None):
        return self._forward(input, None if hx is None else tuple(hx), self.check_forward_args)


@layer(
    "input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, "
    "device=None, dtype=None, **kwargs",
    base="_mode('GRU', kwargs), input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, "
    "device, dtype",
)
class GRU(_SingleState):
    """Gated recurrent unit (gates r, z, n; n = tanh(W x + b + r (W h + b_h))): input (L, N, H_in) -> output (L, N, D
    H_out), last h (D layers, N, H_out).
    """


@layer(
    "input_size, hidden_size, bias, num_chunks, device=None, dtype=None",
    shows="input_size hidden_size bias=?",
    sets={"num_chunks": None, "bias": "bias", "hidden_size": "hidden_size"},
    then="self._rows = num_chunks * hidden_size",
    weight_ih="(self._rows, input_size) ~ hidden_size",
    weight_hh="(self._rows, hidden_size) ~ hidden_size",
    bias_ih="(self._rows,) if bias ~ hidden_size",
    bias_hh="(self._rows,) if bias ~ hidden_size",
)
class RNNCellBase(Module):
    """What the cells share: weight_ih (gates hidden, input), weight_hh (gates hidden, hidden), bias_ih, bias_hh."""

    def _step(self, mode, input, hx):
        """One step of (N, input) or (input); hx: the state's tensors, or None for zeros."""
        name = self._get_name()
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hx is not None:
            for i, h in enumerate(hx):
                if h.dim() not in (1, 2):
                    which = f"hx[{i}]" if len(hx) > 1 else "hidden"
                    raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {h.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if x.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.size(1)} expected {self.input_size}")
        if hx is None:
            zeros = tessera.zeros((x.size(0), self.hidden_size), dtype=x.dtype, device=x.device)
            hx = (zeros,) * (2 if mode == "LSTM" else 1)
        else:
            hx = tuple(h if batched else h.unsqueeze(0) for h in hx)
        for i, h in enumerate(hx):
            if h.size(0) != x.size(0):
                raise RuntimeError(f"Input batch size {x.size(0)} doesn't match hidden{i} batch size {h.size(0)}")
            if h.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i} has inconsistent hidden_size: got {h.size(1)}, expected {self.hidden_size}"
                )
        out = tessera._rnn_cell(
            x, list(hx), self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, _recurrent.KINDS[mode]
        )[: len(hx)]
        return out if batched else tuple(h.squeeze(0) for h in out)


@layer(
    "input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None",
    shows="input_size hidden_size bias=? nonlinearity=?",
    base="input_size, hidden_size, bias, 1, device, dtype",
)
class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh): (N, input), (N, hidden) -> (N, hidden), or without N."""

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step("RNN_" + self.nonlinearity.upper(), input, None if hx is None else (hx,))[0]


@layer(
    "input_size, hidden_size, bias=True, device=None, dtype=None",
    base="input_size, hidden_size, bias, 4, device, dtype",
)
class LSTMCell(RNNCellBase):
    """(h, c) -> (h', c') of a long short-term memory: (N, input), two (N, hidden), or without N."""

    def forward(self, input, hx=None):
        return self._step("LSTM", input, hx)


@layer(
    "input_size, hidden_size, bias=True, device=None, dtype=None",
    base="input_size, hidden_size, bias, 3, device, dtype",
)
class GRUCell(RNNCellBase):
    """h' of a gated recurrent unit: (N, input), (N, hidden) -> (N, hidden), or without N."""

    def forward(self, input, hx=None):
        return self._step("GRU", input, None if hx is None else (hx,))[0]
