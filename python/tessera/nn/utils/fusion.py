"""Folding of batch norm into the layer before it, for evaluation."""

import copy

import tessera
from tessera.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _fused(layer, bn, channel_dim):
    """A copy of the layer that does the batch norm's work as well."""
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    own = copy.deepcopy(layer)
    own.weight, own.bias = _fuse(
        own.weight, own.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, channel_dim
    )
    return own


def _fuse(weight, bias, bn_mean, bn_var, bn_eps, bn_w, bn_b, channel_dim):
    if bias is None:
        bias = tessera.zeros_like(bn_mean)
    if bn_w is None:
        bn_w = tessera.ones_like(bn_mean)
    if bn_b is None:
        bn_b = tessera.zeros_like(bn_mean)
    scale = bn_w * tessera.rsqrt(bn_var + bn_eps)
    shape = [1] * weight.dim()
    shape[channel_dim] = -1
    new_weight = (weight * scale.reshape(shape)).to(dtype=weight.dtype)
    new_bias = ((bias - bn_mean) * scale + bn_b).to(dtype=bias.dtype)
    return Parameter(new_weight, weight.requires_grad), Parameter(new_bias, bias.requires_grad)


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A new convolution that does what conv and then bn do in evaluation. transpose: conv is a ConvTranspose.
    AssertionError in training mode.
    """
    return _fused(conv, bn, 1 if transpose else 0)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of the fused convolution."""
    return _fuse(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_eval(linear, bn):
    """A new Linear that does what linear and then bn do in evaluation. AssertionError in training mode or if the sizes
    do not fit.
    """
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fused(linear, bn, 0)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of the fused Linear."""
    return _fuse(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)
