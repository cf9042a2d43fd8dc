"""BaseStructuredSparsifier: pruning of whole outputs."""

from operator import getitem

import tessera
from tessera import nn
from tessera.fx import symbolic_trace
from tessera.nn import functional as F
from tessera.nn.utils import parametrize

from ...sparsifier.base_sparsifier import BaseSparsifier
from . import prune_functions as cut
from .match_utils import apply_match, member
from .parametrization import BiasHook, FakeStructuredSparsity, module_contains_param

__all__ = ["BaseStructuredSparsifier"]

_ACTIVATIONS = """relu rrelu hardtanh relu6 sigmoid hardsigmoid tanh silu mish hardswish elu celu selu leaky_relu
    logsigmoid gelu hardshrink softplus prelu softsign tanhshrink"""
_MODULES = """ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU LeakyReLU LogSigmoid
    GELU Hardshrink Softplus PReLU Softsign Tanhshrink"""


def _get_supported_structured_pruning_modules():
    return {nn.Linear, nn.Conv2d, nn.LSTM}


def _get_supported_activation_functions():
    return {getattr(F, name) for name in _ACTIVATIONS.split()}


def _get_supported_activation_modules():
    return {getattr(nn, name) for name in _MODULES.split()}


def _get_default_structured_pruning_patterns():
    """{tuple of module classes, functions and "output": function of what stands there in the model}."""
    linear, conv, lstm = nn.Linear, nn.Conv2d, nn.LSTM
    table = {
        (linear, "output"): cut.prune_linear,
        (linear, linear): cut.prune_linear_linear,
        (conv, "output"): cut.prune_conv2d,
        (conv, conv): cut.prune_conv2d_conv2d,
        (lstm, getitem, linear): cut.prune_lstm_output_linear,
        (lstm, getitem, nn.LayerNorm, linear): cut.prune_lstm_output_layernorm_linear,
    }
    for act in (*_get_supported_activation_functions(), *_get_supported_activation_modules()):
        table[linear, act, linear] = cut.prune_linear_activation_linear
        table[conv, act, conv] = cut.prune_conv2d_activation_conv2d
        for pool in (nn.AvgPool2d, F.avg_pool2d, nn.MaxPool2d, F.max_pool2d):
            table[conv, act, pool, conv] = cut.prune_conv2d_activation_pool_conv2d
            table[conv, pool, act, conv] = cut.prune_conv2d_pool_activation_conv2d
    for pool in (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d):
        for flat in (nn.Flatten, tessera.flatten):
            table[conv, pool, flat, linear] = cut.prune_conv2d_pool_flatten_linear
    return table


class BaseStructuredSparsifier(BaseSparsifier):
    """What prunes whole outputs of Linear, Conv2d and LSTM. Subclasses set masks, one entry for each output.

    `prepare` and `step` are those of every sparsifier; layers lose their bias to a hook, which adds it behind the mask.
    A config's "prune_bias" (True) says whether masked outputs lose their bias, too. `prune()` makes the layers smaller.

    Args:
        defaults: dict with what every config starts from.
        patterns: {pattern: function} to look for instead of the usual ones.
    """

    def __init__(self, defaults, patterns=None):
        super().__init__(defaults)
        self.patterns = _get_default_structured_pruning_patterns() if patterns is None else patterns

    def make_config_from_model(self, model, SUPPORTED_MODULES=None):
        """Sets `config` to the weights of all Linear, Conv2d and LSTM, or of all modules of the given classes."""
        super().make_config_from_model(model, SUPPORTED_MODULES or _get_supported_structured_pruning_modules())

    def _prepare(self, first=0):
        for group in self.groups[first:]:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask")
            weight = getattr(module, name)
            if mask is None:
                mask = tessera.ones(weight.shape[0], dtype=tessera.bool, device=weight.device)
            self.state[group["tensor_fqn"]]["mask"] = mask
            made = group.get("parametrization", FakeStructuredSparsity)(mask)
            parametrize.register_parametrization(module, name, made)
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                module.prune_bias = group.get("prune_bias", True)
                if module.bias is not None:
                    module._bias = nn.Parameter(module.bias.detach())
                    module.bias = None
                module.register_forward_hook(BiasHook(made, module.prune_bias))

    def prune(self):
        """Takes masked outputs away, and the inputs of what comes next. Returns the traced model.

        The modules are those of the model, which change. Chains that can be pruned: layer to output; Linear and Conv2d
        to their kind, with an activation between, and a pool before or behind that; Conv2d to Linear through an
        adaptive pool and flatten; LSTM to Linear, with a LayerNorm between. Next to a padded Conv2d channels with a
        bias stay, as zeros.

        Raises: Exception if a mask is left: its layer is in no such chain.
        """
        self.traced = symbolic_trace(self.model)
        modules = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            first = modules.get(node.target) if node.op == "call_module" else None
            if first is None or not module_contains_param(first, FakeStructuredSparsity):
                continue
            if getattr(first, "groups", 1) != 1:
                continue
            for pattern, function in self.patterns.items():
                found = apply_match(modules, pattern, node)
                if found is not None and _can_shrink(modules, found):
                    function(*(member(modules, n) for n in found))
                    break
        for module in self.traced.modules():
            if module_contains_param(module, FakeStructuredSparsity):
                raise Exception(
                    f"Error: {module} still contains FakeStructuredSparsity parametrizations! It begins none of the "
                    f"chains that can be pruned."
                )
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced


def _can_shrink(modules, nodes):
    """Whether nothing between has parameters or indices for each channel, and the last takes every channel."""
    inner = [member(modules, n) for n in nodes[1:]]
    if any(isinstance(m, nn.PReLU) and m.num_parameters > 1 for m in inner):
        return False
    if any(n.target is getitem and n.args[1] != 0 for n in nodes):
        return False
    return getattr(inner[-1], "groups", 1) == 1
