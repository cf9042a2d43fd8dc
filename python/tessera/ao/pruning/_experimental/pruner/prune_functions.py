"""What makes layers smaller: `prune_...` take the modules and functions of a chain, in order."""

import tessera
from tessera import nn
from tessera.nn.utils import parametrize

from .parametrization import BiasHook, FakeStructuredSparsity


def _cut(module, name, select):
    """module.<name> = select(its data); the original where it has a parametrization."""
    if parametrize.is_parametrized(module, name):
        holder, name = module.parametrizations[name], "original"
    else:
        holder = module
    old = getattr(holder, name)
    setattr(holder, name, nn.Parameter(select(old.detach()).clone(), requires_grad=old.requires_grad))


def _mask(module, name):
    chain = module.parametrizations[name] if parametrize.is_parametrized(module, name) else ()
    return next((p.mask.bool() for p in chain if isinstance(p, FakeStructuredSparsity)), None)


def _take_rows(module, name, mask):
    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    _cut(module, name, lambda weight: weight[mask])


def _restore_bias(module, mask=None):
    """The bias is a parameter of the layer again, of the rows in `mask`, without a hook. Returns the other rows."""
    for key, hook in list(module._forward_hooks.items()):
        if isinstance(hook, BiasHook):
            del module._forward_hooks[key]
    bias = getattr(module, "_bias", None)
    if bias is not None:
        del module._bias
    else:
        bias = module.bias
    if bias is None:
        return None
    whole = bias.detach()
    module.bias = nn.Parameter((whole if mask is None else whole[mask]).clone())
    return None if mask is None or module.prune_bias else whole[~mask]


def _prune_outputs(module):
    """Returns (mask, what the biases of outputs that are gone were, if they have to go on)."""
    mask = _mask(module, "weight")
    _take_rows(module, "weight", mask)
    biases = _restore_bias(module, mask)
    count = int(mask.sum())
    if isinstance(module, nn.Conv2d):
        module.out_channels = count
    else:
        module.out_features = count
    return mask, biases


def _add_to_bias(module, more):
    name = "_bias" if getattr(module, "_bias", None) is not None else "bias"
    old = getattr(module, name)
    setattr(module, name, nn.Parameter(more if old is None else old.detach() + more))


def _prune_inputs(module, mask, constants):
    """Takes the inputs away that are not in the mask; those were constant, so that the bias may stand for them."""
    if constants is not None:
        weight = module.weight.detach()[:, ~mask]  # behind a mask, if it has one
        _add_to_bias(module, weight.flatten(2).sum(2) @ constants if weight.dim() > 2 else weight @ constants)
    _cut(module, "weight", lambda weight: weight[:, mask])
    if isinstance(module, nn.Conv2d):
        module.in_channels = int(mask.sum())
    else:
        module.in_features = int(mask.sum())


def _keep_as_zeros(conv):
    """The masked outputs stay, with weights of zero: the padding of the next layer would not see their bias."""
    mask = _mask(conv, "weight")
    parametrize.remove_parametrizations(conv, "weight", leave_parametrized=True)
    if conv.prune_bias:
        conv._bias.data[~mask] = 0
    _restore_bias(conv)


@tessera.no_grad()
def prune_chain(first, *rest):
    """Prunes the outputs of `first`, a Linear or Conv2d, and the inputs of the last of `rest`.

    Between them stand activations, pools and flatten, as modules, functions or None. Biases of outputs that are gone
    go through activations into the bias of the last, unless "prune_bias" has made them 0.
    """
    *between, last = rest or (None,)
    padded = isinstance(last, nn.Conv2d) and (isinstance(last.padding, str) or any(last.padding))
    if padded and getattr(first, "_bias", None) is not None:
        _keep_as_zeros(first)
        return
    mask, biases = _prune_outputs(first)
    if last is None:
        return
    if biases is not None:
        for step in between:
            if step is not None and not _moves_only(step):
                biases = step(biases)
    if isinstance(first, nn.Conv2d) and isinstance(last, nn.Linear):
        area = last.in_features // mask.numel()
        mask = mask.repeat_interleave(area)
        biases = None if biases is None else biases.repeat_interleave(area)
    _prune_inputs(last, mask, biases)


_MOVES = (nn.AvgPool2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.Flatten)
_MOVE_FUNCTIONS = (
    nn.functional.avg_pool2d,  # type: ignore[attr-defined]
    nn.functional.max_pool2d,  # type: ignore[attr-defined]
    tessera.flatten,
)


def _moves_only(step):
    """Whether constants come out of this step as they go in."""
    return isinstance(step, _MOVES) or getattr(step, "func", step) in _MOVE_FUNCTIONS


def _columns_by_gate(weight, masks):
    return tessera.cat([part[:, mask] for part, mask in zip(weight.chunk(4), masks)])


@tessera.no_grad()
def prune_lstm_chain(lstm, getitem, *rest):
    """Prunes the gates of an LSTM and the inputs of what follows: maybe a LayerNorm, then a Linear.

    Raises: ValueError unless the masks of all its weights leave equally many rows.
    """
    hidden, inputs, kept = lstm.hidden_size, None, set()
    for layer in range(lstm.num_layers):
        for kind in ("ih", "hh"):
            name = f"weight_{kind}_l{layer}"
            mask = _mask(lstm, name)
            kept.add(4 * hidden if mask is None else int(mask.sum()))
    if len(kept) > 1 or lstm.bidirectional or lstm.proj_size:
        raise ValueError(
            f"pruning an LSTM needs masks of weight_ih and weight_hh of all layers that leave equally many rows (these "
            f"leave {sorted(kept)}), one direction and no projections"
        )
    for layer in range(lstm.num_layers):
        for kind in ("ih", "hh"):
            name = f"weight_{kind}_l{layer}"
            mask = _mask(lstm, name)
            if mask is None:
                continue
            _take_rows(lstm, name, mask)
            if lstm.bias:
                _cut(lstm, f"bias_{kind}_l{layer}", lambda bias, mask=mask: bias[mask])
            if kind == "hh":
                inputs = mask.chunk(4)
                _cut(lstm, name, lambda weight, inputs=inputs: _columns_by_gate(weight, inputs))
                inputs = inputs[-1]  # the output gate: what later layers see
            elif inputs is not None:
                _cut(lstm, name, lambda weight, inputs=inputs: weight[:, inputs])
    if inputs is None:
        return
    lstm.hidden_size = int(inputs.sum())
    for follower in rest:
        if isinstance(follower, nn.LayerNorm):
            for name in ("weight", "bias"):
                if getattr(follower, name) is not None:
                    _cut(follower, name, lambda x: x[inputs])
            follower.normalized_shape = (lstm.hidden_size,)
        elif follower is not None:
            _prune_inputs(follower, inputs, None)


prune_linear = prune_linear_linear = prune_linear_activation_linear = prune_chain
prune_conv2d = prune_conv2d_conv2d = prune_conv2d_activation_conv2d = prune_chain
prune_conv2d_activation_pool_conv2d = prune_conv2d_pool_activation_conv2d = prune_chain
prune_conv2d_pool_flatten_linear = prune_chain
prune_lstm_output_linear = prune_lstm_output_layernorm_linear = prune_lstm_chain
