"""Which nodes of a graph are quantized, and how."""

import operator
from typing import Any

import tessera
from tessera import nn
from tessera.ao.nn import intrinsic, qat
from tessera.ao.nn import quantized as nnq

__all__ = ["kind_of_node", "shares_observer", "weighted"]

F: Any = nn.functional  # its names are made when it is loaded
_DIMS = (1, 2, 3)
# Layers with a weight.
WEIGHTED = (
    nn.Linear, nn.Embedding, nn.EmbeddingBag, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell,
    *(getattr(nn, f"Conv{n}d") for n in _DIMS), *(getattr(nn, f"ConvTranspose{n}d") for n in _DIMS),
    intrinsic._FusedModule, qat.Linear, qat.Conv1d, qat.Conv2d, qat.Conv3d,
)  # fmt: skip
FLOAT_ONLY = (nn.Embedding, nn.EmbeddingBag, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell)
# Layers whose results have an observer of their own.
OBSERVED = (
    nn.BatchNorm2d, nn.BatchNorm3d, nn.ELU, nn.GroupNorm, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.LayerNorm, nn.LeakyReLU, nn.PReLU, nn.Sigmoid, nn.Softmax, nn.Tanh, nn.Hardsigmoid,
)  # fmt: skip
# Layers, functions and methods that move or choose numbers: one observer for input and result.
SHARED_LAYERS = (
    nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Identity, nn.Dropout, nn.Flatten, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.Upsample, nn.PixelShuffle, nn.PixelUnshuffle,
)  # fmt: skip
SHARED_FUNCTIONS = {
    tessera.relu, F.relu, F.relu6, F.hardtanh, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d,
    F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.dropout, F.interpolate,
    tessera.flatten, tessera.reshape, tessera.squeeze, tessera.unsqueeze, tessera.transpose, tessera.permute,
    tessera.clamp, tessera.mean, tessera.repeat_interleave, tessera.narrow, tessera.stack, tessera.chunk,
    operator.getitem,
}  # fmt: skip
SHARED_METHODS = frozenset(
    "relu relu_ flatten reshape view squeeze squeeze_ unsqueeze unsqueeze_ transpose permute clamp mean contiguous "
    "repeat repeat_interleave detach chunk expand size shape".split()
)
TURNED = {operator.add: "add", tessera.add: "add", operator.iadd: "add", operator.mul: "mul", tessera.mul: "mul",
          operator.imul: "mul", tessera.matmul: "matmul"}  # fmt: skip
OBSERVED_FUNCTIONS = {
    F.elu: "elu", F.hardswish: "hardswish", F.layer_norm: "layer_norm", F.instance_norm: "instance_norm",
    F.group_norm: "group_norm", F.leaky_relu: "leaky_relu", F.softmax: None, tessera.softmax: None,
    tessera.sigmoid: None, F.sigmoid: None, tessera.tanh: None, F.tanh: None, F.hardsigmoid: None,
}  # fmt: skip
FUNCTIONS_WITH_WEIGHTS = {F.linear: "linear", F.conv1d: "conv1d", F.conv2d: "conv2d", F.conv3d: "conv3d"}
_METHODS_OBSERVED = frozenset("sigmoid sigmoid_ tanh tanh_ hardsigmoid hardsigmoid_ add add_ mul mul_ matmul".split())


def weighted(module):
    """Whether a layer has a weight that is quantized."""
    return isinstance(module, WEIGHTED) or hasattr(module, "weight_fake_quant")


def kind_of_node(node, modules):
    """What a qconfig by object type names: a class, a function, the name of a method."""
    if node.op == "call_module":
        return type(modules[node.target])
    return node.target if node.op in ("call_function", "call_method") else None


def shares_observer(node, modules):
    """Whether a node's result has the scale of its input."""
    if node.op == "call_module":
        return isinstance(modules[node.target], SHARED_LAYERS)
    if node.op == "call_function":
        return node.target in SHARED_FUNCTIONS
    return node.op == "call_method" and node.target in SHARED_METHODS


def is_cat(node):
    """Whether a node joins tensors."""
    return node.op == "call_function" and node.target in (tessera.cat, tessera.concat)


def is_observed(node, modules):
    """Whether a node's result has an observer of its own."""
    if node.op == "call_module":
        module = modules[node.target]
        return weighted(module) or isinstance(module, OBSERVED) or isinstance(module, nnq.FloatFunctional)
    if node.op == "call_function":
        return node.target in TURNED or node.target in OBSERVED_FUNCTIONS or node.target in FUNCTIONS_WITH_WEIGHTS
    return node.op == "call_method" and node.target in _METHODS_OBSERVED
