"""Functional forms of the layers, activations and losses. The definitions are in `_functional`, by subject; what has a
kernel comes from there directly.
"""

import tessera
from tessera.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

from . import _reduction as _Reduction
from ._functional import activation, attention, composed, loss, norm, product, resample, spatial
from ._tuples import _list_with_default, _pair, _single, _triple

_nn = tessera._C._nn

# Functions that are an op as it stands.
_OPS = (
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "conv_tbc",
    "bilinear",
    "avg_pool1d",
    "adaptive_avg_pool1d",
    "prelu",
    "relu_",
    "celu_",
    "selu_",
    "rrelu_",
    "threshold_",
    "hardshrink",
    "cosine_similarity",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "channel_shuffle",
    "native_channel_shuffle",
)
_NN_OPS = (
    "linear",
    "gelu",
    "elu_",
    "leaky_relu_",
    "hardtanh_",
    "softplus",
    "softshrink",
    "avg_pool2d",
    "avg_pool3d",
    "one_hot",
    "scaled_dot_product_attention",
)
for _name in _OPS:
    if hasattr(tessera, _name):
        globals()[_name] = getattr(tessera, _name)
for _name in _NN_OPS:
    if hasattr(_nn, _name):
        globals()[_name] = getattr(_nn, _name)
if hasattr(_nn, "log_sigmoid"):
    logsigmoid = _nn.log_sigmoid

for _part in (activation, attention, loss, norm, product, resample, spatial):
    for _name, _value in vars(_part).items():
        if getattr(_value, "__module__", None) == _part.__name__ and callable(_value):
            _value.__module__ = __name__  # where users find them, and what pickle writes
            if hasattr(_value, "__wrapped__"):
                _value.__wrapped__.__module__ = __name__
            globals()[_name] = _value
# Compositions stand in where there is no kernel.
for _name in composed.__all__:
    if _name not in globals():
        _value = globals()[_name] = getattr(composed, _name)
        _value.__module__ = __name__
del _part, _name, _value
Tensor = tessera.Tensor
