"""Helpers for training and for modules."""

from tessera._lazy import attach as _attach, keep_functions as _keep_functions

# At once, because the functions have the names of their modules: a later import of the module would take the function's
# place.
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

_WHERE = {
    "clip_grad_norm": "clip_grad",
    "clip_grad_norm_": "clip_grad",
    "clip_grad_value_": "clip_grad",
    "get_total_norm": "clip_grad",
    "clip_grads_with_norm_": "clip_grad",
    "parameters_to_vector": "convert_parameters",
    "vector_to_parameters": "convert_parameters",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "skip_init": "init",
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
}

__all__ = [*_WHERE, "weight_norm", "remove_weight_norm", "spectral_norm", "remove_spectral_norm"]
__all__ += ["parametrizations", "parametrize", "rnn", "stateless"]

__getattr__, __dir__ = _attach(__name__, _WHERE)

_keep_functions(__name__, "spectral_norm", "weight_norm")
