"""Formulas of operators that are of the core set themselves: for who asks for them by name (`get_decompositions`)."""

import math

import tessera
from tessera._decomp._registry import overloads_of, widened
from tessera._ops import ops

__all__ = ["core_table"]

aten = ops.aten
core_table: dict = {}  # {operator: function}
_HALVES = (tessera.float16, tessera.bfloat16)


def _core(name):
    def register(function):
        for op in overloads_of(getattr(aten, name)):
            if not op._schema.is_mutable:
                core_table[op] = function
        return function

    return register


def _wide(t):
    return t.float() if t is not None and t.dtype in _HALVES else t


# --- activations


@_core("relu")
def _relu(input):
    return tessera.where(input <= 0, 0, input)


@_core("leaky_relu")
@widened
def _leaky_relu(input, negative_slope=0.01):
    return tessera.where(input > 0, input, input * negative_slope)


@_core("hardtanh")
def _hardtanh(input, min_val=-1, max_val=1):
    return tessera.clamp(input, min_val, max_val)


@_core("elu")
@widened
def _elu(input, alpha=1, scale=1, input_scale=1):
    return tessera.where(input > 0, input * scale, tessera.expm1(input * input_scale) * (alpha * scale))


@_core("gelu")
@widened
def _gelu(input, *, approximate="none"):
    if approximate == "tanh":
        return 0.5 * input * (1 + tessera.tanh(math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)))
    return 0.5 * input * (1 + tessera.erf(input * math.sqrt(0.5)))


def _result_of_softmax(x, input, half_to_float):
    return x if half_to_float else x.to(input.dtype)


def _shifted(input, dim):
    x = _wide(input)
    return x - tessera.amax(x, dim, keepdim=True) if x.numel() else x


@_core("_softmax")
def _softmax(input, dim, half_to_float):
    e = tessera.exp(_shifted(input, dim))
    return _result_of_softmax(e / tessera.sum(e, dim, keepdim=True), input, half_to_float)


@_core("_log_softmax")
def _log_softmax(input, dim, half_to_float):
    x = _shifted(input, dim)
    return _result_of_softmax(x - tessera.log(tessera.sum(tessera.exp(x), dim, keepdim=True)), input, half_to_float)


# --- norms


def _normalized(x, dims, eps):
    """(x with mean 0 and variance 1 along dims, mean, 1 / deviation)."""
    mean = tessera.mean(x, dims, keepdim=True)
    centred = x - mean
    rstd = tessera.rsqrt(tessera.mean(centred * centred, dims, keepdim=True) + eps)
    return centred * rstd, mean, rstd


@_core("native_layer_norm")
def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    out, mean, rstd = _normalized(_wide(input), list(range(-len(normalized_shape), 0)), eps)
    out = out if weight is None else out * _wide(weight)
    out = out if bias is None else out + _wide(bias)
    return out.to(input.dtype), mean, rstd


@_core("native_layer_norm_backward")
def _native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    count = len(normalized_shape)
    inner, outer = list(range(-count, 0)), list(range(input.dim() - count))
    grad, x = _wide(grad_out), (_wide(input) - mean) * rstd
    scaled = grad if weight is None else grad * _wide(weight)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        part = tessera.mean(scaled, inner, keepdim=True) + x * tessera.mean(scaled * x, inner, keepdim=True)
        of_input = (rstd * (scaled - part)).to(input.dtype)
    if output_mask[1] and weight is not None:
        of_weight = (tessera.sum(grad * x, outer) if outer else grad * x).to(weight.dtype)
    if output_mask[2] and bias is not None:
        of_bias = (tessera.sum(grad, outer) if outer else grad.clone()).to(bias.dtype)
    return of_input, of_weight, of_bias


@_core("native_group_norm")
def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    parts = _wide(input).reshape(N, group, C // group, HxW)
    out, mean, rstd = _normalized(parts, [2, 3], eps)
    out, shape = out.reshape(input.shape), [C] + [1] * (input.dim() - 2)
    out = out if weight is None else out * _wide(weight).reshape(shape)
    out = out if bias is None else out + _wide(bias).reshape(shape)
    return out.to(input.dtype), mean.reshape(N, group).to(input.dtype), rstd.reshape(N, group).to(input.dtype)


# --- others


@_core("native_dropout")
def _native_dropout(input, p, train):
    if not train or p == 0:
        return input.clone(), tessera.ones_like(input, dtype=tessera.bool)
    mask = tessera.rand_like(input) > p if p < 1 else tessera.zeros_like(input, dtype=tessera.bool)
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask


@_core("embedding_dense_backward")
def _embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    grad, flat = _wide(grad_output), indices.reshape(-1).long()
    if scale_grad_by_freq:
        ones = tessera.ones_like(flat)
        counts = tessera.index_add(tessera.zeros([num_weights], dtype=ones.dtype, device=ones.device), 0, flat, ones)
        grad = grad / counts[indices].unsqueeze(-1)
    rows = grad.reshape(flat.shape[0], grad.shape[-1])
    rows = tessera.where((flat == padding_idx).unsqueeze(1), 0, rows)
    return tessera.index_add(rows.new_zeros([num_weights, rows.shape[1]]), 0, flat, rows).to(grad_output.dtype)
