"""Decompositions of what layers are made of: norms, softmax, attention, losses, dropout."""

import math

import tessera
from tessera._decomp._registry import rule, widened
from tessera._ops import ops

aten = ops.aten


def wide(t):
    """In float32 for half precision."""
    return t.float() if t is not None and t.dtype in (tessera.float16, tessera.bfloat16) else t


# --- norms


@rule("_native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    return aten.native_layer_norm.default(input, normalized_shape, weight, bias, eps)


@rule("_batch_norm")
def batch_norm(input, weight, bias, mean, var, running_mean, running_var, training, momentum, eps):
    if not training:
        return aten._native_batch_norm_legit_no_training.default(input, weight, bias, mean, var, momentum, eps)
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, eps)
    *results, new_mean, new_var = aten._native_batch_norm_legit_functional.default(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    running_mean.copy_(new_mean)
    running_var.copy_(new_var)
    return tuple(results)


# --- softmax and what it is in


@rule("_softmax_backward_data")
def softmax_backward(grad_output, output, dim, input_dtype):
    y, product = wide(output), wide(grad_output) * wide(output)
    return (product - y * aten.sum.dim_IntList(product, [dim], True)).to(input_dtype)


@rule("_log_softmax_backward_data")
def log_softmax_backward(grad_output, output, dim, input_dtype):
    grad, y = wide(grad_output), wide(output)
    return (grad - tessera.exp(y) * aten.sum.dim_IntList(grad, [dim], True)).to(input_dtype)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    groups = query.shape[-3] // key.shape[-3] if query.shape[-3] != key.shape[-3] else 1  # heads that share keys
    if groups > 1:
        key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
    scores = tessera.matmul(wide(query) * scale, wide(key).transpose(-2, -1))
    if is_causal:
        rows = tessera.arange(query.shape[-2], device=query.device)
        allowed = rows.unsqueeze(1) >= tessera.arange(key.shape[-2], device=query.device)
        scores = _masked(scores, allowed)
    if attn_mask is not None:
        scores = _masked(scores, attn_mask) if attn_mask.dtype == tessera.bool else scores + wide(attn_mask)
    sums = tessera.logsumexp(scores, -1)
    weights = tessera.softmax(scores, -1)
    empty = tessera.unsqueeze(sums == -math.inf, -1)  # no key is allowed
    weights = tessera.where(empty, tessera.zeros_like(weights), weights)
    if dropout_p > 0:
        weights = aten.native_dropout.default(weights, dropout_p, True)[0]
    return tessera.matmul(weights, wide(value)).to(query.dtype), sums


def _masked(scores, allowed):
    low = aten.scalar_tensor.default(-math.inf, dtype=scores.dtype, device=scores.device)
    return aten.where.self(allowed, scores, low)


# --- losses


@rule("nll_loss_forward")
def nll_loss(self, target, weight, reduction, ignore_index):
    return _nll(self, target, weight, reduction, ignore_index, 0 if self.dim() < 2 else 1)


@rule("nll_loss2d_forward")
def nll_loss2d(self, target, weight, reduction, ignore_index):
    return _nll(self, target, weight, reduction, ignore_index, 1)


def _nll(self, target, weight, reduction, ignore_index, dim):
    zero = aten.scalar_tensor.default(0, dtype=self.dtype, device=self.device)
    counts = target != ignore_index
    places = aten.where.self(counts, target, aten.scalar_tensor.default(0, dtype=target.dtype, device=target.device))
    picked = -aten.squeeze.dims(aten.gather.default(self, dim, aten.unsqueeze.default(places, dim)), [dim])
    factors = counts.to(self.dtype) if weight is None else aten.where.self(counts, weight[places], zero)
    losses = aten.where.self(counts, picked * factors, zero)
    if reduction == 0 and (self.dim() > 1):
        return losses, aten.full.default([], 0.0, dtype=self.dtype, device=self.device)
    total = aten.sum.dim_IntList(factors, [])
    summed = aten.sum.dim_IntList(losses, [])
    return (summed / total if reduction == 1 else summed), total


# --- dropout


@rule("dropout")
def dropout(input, p, train):
    if not train or p == 0:
        return aten.clone.default(input)
    return aten.native_dropout.default(input, p, train)[0]


@rule("native_dropout_backward")
@widened
def native_dropout_backward(grad_output, mask, scale):
    return grad_output * (mask.to(grad_output.dtype) * scale)


@rule("rrelu")
def rrelu(self, lower=0.125, upper=1 / 3, training=False, generator=None):
    """Draws a slope for every element, used or not: how many are negative is not known."""
    if not lower <= upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return aten.leaky_relu.default(self, (lower + upper) / 2)
    if generator is None:
        drawn = aten.rand_like.default(self)
    else:
        drawn = tessera.rand(self.shape, generator=generator, dtype=self.dtype, device=self.device)
    slopes = drawn * (upper - lower) + lower
    return tessera.where(self <= 0, self * slopes, self)
