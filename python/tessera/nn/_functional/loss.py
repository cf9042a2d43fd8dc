"""Losses. Each has reduction none | mean | sum (ValueError otherwise); size_average and reduce are the deprecated flags
before it.
"""

import math
import warnings

import tessera
from tessera.overrides import handle_torch_function, has_torch_function_variadic

from .. import _reduction as _Reduction
from .common import autocasts, overridable, reduce_loss

_nn = tessera._C._nn


def _reduction(size_average, reduce, reduction):
    """The reduction's enum value, the deprecated flags taken into account."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    return _Reduction.get_enum(reduction)


def _reduction_name(size_average, reduce, reduction):
    if size_average is not None or reduce is not None:
        return _Reduction.legacy_get_string(size_average, reduce)
    _Reduction.get_enum(reduction)
    return reduction


def _broadcast(input, target):
    """Both at their common shape, with a warning if the shapes differ."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            f"likely lead to incorrect results due "
            "to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )
    return tessera.broadcast_tensors(input, target)


def _weighted(loss, weight, reduction):
    """Elementwise loss times weight; 'mean' divides by the sum of the weights."""
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == 0:
        return loss
    return loss.sum() if reduction == 2 else loss.sum() / weight.sum()


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or class probabilities (N, C, ...)."""
    if has_torch_function_variadic(input, target, weight):
        return handle_torch_function(
            cross_entropy,
            (input, target, weight),
            input,
            target,
            weight=weight,
            size_average=size_average,
            ignore_index=ignore_index,
            reduce=reduce,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    return _nn.cross_entropy_loss(
        input, target, weight, _reduction(size_average, reduce, reduction), ignore_index, label_smoothing
    )


@overridable
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-log p of the target class: input log probabilities (N, C, ...), target class indices (N, ...)."""
    return _nn.nll_loss_nd(input, target, weight, _reduction(size_average, reduce, reduction), ignore_index)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2. weight: per element, same shape."""
    if has_torch_function_variadic(input, target, weight):
        return handle_torch_function(
            mse_loss,
            (input, target, weight),
            input,
            target,
            size_average=size_average,
            reduce=reduce,
            reduction=reduction,
            weight=weight,
        )
    input, target = _broadcast(input, target)
    code = _reduction(size_average, reduce, reduction)
    if weight is not None:
        return _weighted((input - target) ** 2, weight, code)
    return _nn.mse_loss(input, target, code)


@overridable
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|. weight: per element, same shape."""
    input, target = _broadcast(input, target)
    code = _reduction(size_average, reduce, reduction)
    if weight is not None:
        return _weighted((input - target).abs(), weight, code)
    return _nn.l1_loss(input, target, code)


@overridable
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """0.5 d^2 / beta where d = |input - target| < beta, else d - 0.5 beta. beta = 0 is l1_loss."""
    input, target = _broadcast(input, target)
    code = _reduction(size_average, reduce, reduction)
    if beta == 0.0:
        return _nn.l1_loss(input, target, code)
    return _nn.smooth_l1_loss(input, target, code, beta)


@overridable
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """0.5 d^2 where d = |input - target| < delta, else delta (d - 0.5 delta)."""
    input, target = _broadcast(input, target)
    code = _Reduction.get_enum(reduction)
    if weight is not None:
        return _weighted(_nn.huber_loss(input, target, 0, delta), weight, code)
    return _nn.huber_loss(input, target, code, delta)


@overridable
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities in [0, 1]; the logarithms are clamped at -100. ValueError if the shapes differ."""
    code = _reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            f"deprecated. Please ensure they have the "
            "same size."
        )
    if weight is not None:
        weight = weight.expand(tessera.broadcast_shapes(target.size(), weight.size()))
    return _nn.binary_cross_entropy(input, target, weight, code)


@overridable
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """binary_cross_entropy of sigmoid(input), computed stably. pos_weight: weight of the positive class, broadcast.
    ValueError if the shapes differ.
    """
    code = _reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return tessera.binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


@overridable
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log target - input), input being log probabilities (log_target: the target too). 'batchmean' divides
    the sum by the batch's size.
    """
    if size_average is not None or reduce is not None:
        code = _Reduction.legacy_get_enum(size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' "
                "divides only by the batch size, and aligns "
                "with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next "
                "major release.",
                stacklevel=3,
            )
        code = _Reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    if not all(t.is_floating_point() or t.is_complex() for t in (input, target)):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    out = tessera.kl_div(input, target, code, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        out = out / input.size(0)
    return out


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """Negative log likelihood of Poisson counts with rate exp(input) (log_input) or input. full: adds Stirling's term
    for targets > 1.
    """
    code = _reduction(size_average, reduce, reduction)
    return tessera.poisson_nll_loss(input, target, log_input, full, eps, code)


def _gaussian_variance(input, var):
    """`var` in a shape that broadcasts to the input's. ValueError if there is none or an entry is negative."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        return var * tessera.ones_like(input)
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif (
            var.dim() == input.dim()
            and sum(a != b for a, b in zip(input.size(), var.size())) == 1
            and all(b in (a, 1) for a, b in zip(input.size(), var.size()))
        ):
            pass
        else:
            raise ValueError("var is of incorrect size")
    return var


@overridable
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of `target` under normal distributions N(input, var); var is clamped at eps from below
    (without a gradient there).
    """
    var = _gaussian_variance(input, var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with tessera.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    return tessera.hinge_embedding_loss(input, target, margin, _reduction(size_average, reduce, reduction))


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)), target 1 or -1."""
    return _nn.soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin)."""
    code = _reduction(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return tessera.margin_ranking_loss(input1, input2, target, margin, code)


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos(x1, x2) where target is 1, max(0, cos - margin) where it is -1; inputs (N, D) or (D), target (N) or
    ().
    """
    code = _reduction(size_average, reduce, reduction)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        want = (
            "1D target tensor expects 2D input tensors"
            if target.dim() == 1
            else "0D target tensor expects 1D input tensors"
        )
        raise RuntimeError(f"{want}, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}.")
    return tessera.cosine_embedding_loss(input1, input2, target, margin, code)


def _check_triplet(anchor, positive, negative):
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, |a - p| - |a - n| + margin) with p-norms. swap: the smaller of |a - n| and |p - n| (Balntas et al.
    2016).
    """
    code = _reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    return tessera.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)


@overridable
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss with a distance of your own (default: pairwise Euclidean distance)."""
    _Reduction.get_enum(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    if distance_function is None:
        from .composed import pairwise_distance as distance_function
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = tessera.minimum(far, distance_function(positive, negative))
    return reduce_loss((margin + near - far).clamp_min(0), reduction)


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """sum over i != y of max(0, margin - x[y] + x[i])^p / C; input (N, C) or (C), target (N), (1) or (). ValueError
    unless p is 1 or 2.
    """
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    code = _reduction(size_average, reduce, reduction)
    return _nn.multi_margin_loss(input, target, p, margin, weight, code)


@overridable
@autocasts(cpu="fp32", cuda="fp32")
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """sum over targets j and others i of max(0, 1 - (x[j] - x[i])) / C; the targets of a row end at its first -1.
    input, target (N, C) or (C).
    """
    return _nn.multilabel_margin_loss(input, target, _reduction(size_average, reduce, reduction))


@overridable
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over classes of the binary cross entropy of sigmoid(input) with target; input, target (N, C)."""
    name = _reduction_name(size_average, reduce, reduction)
    loss = -(target * _nn.log_sigmoid(input) + (1 - target) * _nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss.mean(input.dim() - 1), name)


@overridable
@autocasts(cpu="fp32")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification (Graves et al. 2006): log_probs (T, N, C) or (T, C), targets (N, S) or
    their concatenation.
    """
    how = _Reduction.get_enum(reduction)
    return tessera.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)
