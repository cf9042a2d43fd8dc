"""Loss layers. reduction: none | mean | sum; size_average and reduce are the deprecated flags before it."""

from tessera.nn import _reduction as _Reduction
from tessera.nn import functional as F

from ._declared import layer
from .distance import PairwiseDistance
from .module import Module

__all__ = [
    "L1Loss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "GaussianNLLLoss",
    "KLDivLoss",
    "MSELoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "HingeEmbeddingLoss",
    "MultiLabelMarginLoss",
    "SmoothL1Loss",
    "HuberLoss",
    "SoftMarginLoss",
    "CrossEntropyLoss",
    "MultiLabelSoftMarginLoss",
    "CosineEmbeddingLoss",
    "MarginRankingLoss",
    "MultiMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "CTCLoss",
]


def _one_name(size_average, reduce, reduction):
    """The reduction's name; the deprecated flags come first where one is given."""
    if size_average is reduce is None:
        return reduction
    return _Reduction.legacy_get_string(size_average, reduce)


@layer(
    "size_average=None, reduce=None, reduction='mean'",
    sets={"reduction": "_one_name(size_average, reduce, reduction)", "size_average": None, "reduce": None},
)
class _Loss(Module):
    pass


@layer(
    "weight=None, size_average=None, reduce=None, reduction='mean'",
    base="size_average, reduce, reduction",
    then="self.register_buffer('weight', weight)",
)
class _WeightedLoss(_Loss):
    pass


@layer(computes="input, target -> F.l1_loss(input, target, reduction=reduction)")
class L1Loss(_Loss):
    """|input - target|."""


@layer(
    "weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'",
    "input, target -> F.nll_loss(input, target, weight=self.weight, ignore_index=ignore_index, reduction=reduction)",
    base="weight, size_average, reduce, reduction",
)
class NLLLoss(_WeightedLoss):
    """-weight[y] * input[y]: log probabilities (N, C, ...) and class indices (N, ...); 'mean' divides by the sum of the
    weights used.
    """


@layer(
    "weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'",
    base="weight, size_average, ignore_index, reduce, reduction",
    then="self._warn()",
)
class NLLLoss2d(NLLLoss):
    """Deprecated: use NLLLoss."""

    def _warn(self):
        import warnings

        warnings.warn(
            "NLLLoss2d has been deprecated. Please use NLLLoss instead as a drop-in replacement and see its "
            "documentation for more details.",
            FutureWarning,
            stacklevel=3,
        )


@layer(
    "log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction='mean'",
    "log_input, target -> F.poisson_nll_loss(log_input, target, self.log_input, full, eps=eps, reduction=reduction)",
    base="size_average, reduce, reduction",
)
class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under Poisson distributions with rate exp(input) (log_input) or input."""


@layer(
    "*, full=False, eps=1e-6, reduction='mean'",
    "input, target, var -> F.gaussian_nll_loss(input, target, var, full=full, eps=eps, reduction=reduction)",
    base="None, None, reduction",
)
class GaussianNLLLoss(_Loss):
    """Negative log likelihood of the target under N(input, var)."""


@layer(
    "size_average=None, reduce=None, reduction='mean', log_target=False",
    "input, target -> F.kl_div(input, target, reduction=reduction, log_target=log_target)",
    base="size_average, reduce, reduction",
)
class KLDivLoss(_Loss):
    """target * (log target - input), input being log probabilities; reduction may also be 'batchmean', the mathematical
    definition.
    """


@layer(computes="input, target -> F.mse_loss(input, target, reduction=reduction)")
class MSELoss(_Loss):
    """(input - target)^2."""


@layer(computes="input, target -> F.binary_cross_entropy(input, target, weight=self.weight, reduction=reduction)")
class BCELoss(_WeightedLoss):
    """-(y log x + (1 - y) log(1 - x)), the logarithms clamped at -100."""


@layer(
    "weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None",
    "input, target -> F.binary_cross_entropy_with_logits(input, target, self.weight, "
    "pos_weight=self.pos_weight, reduction=reduction)",
    base="size_average, reduce, reduction",
    then="self.register_buffer('weight', weight); self.register_buffer('pos_weight', pos_weight)",
)
class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(input), computed stably. pos_weight: weight of the positive examples, broadcast over the
    classes.
    """


@layer(
    "margin=1.0, size_average=None, reduce=None, reduction='mean'",
    "input, target -> F.hinge_embedding_loss(input, target, margin=margin, reduction=reduction)",
    base="size_average, reduce, reduction",
)
class HingeEmbeddingLoss(_Loss):
    """input where the target is 1, max(0, margin - input) where it is -1."""


@layer(computes="input, target -> F.multilabel_margin_loss(input, target, reduction=reduction)")
class MultiLabelMarginLoss(_Loss):
    """Multi-class hinge loss with several targets per row, which end at the first -1."""


@layer(
    "size_average=None, reduce=None, reduction='mean', beta=1.0",
    "input, target -> F.smooth_l1_loss(input, target, reduction=reduction, beta=beta)",
    base="size_average, reduce, reduction",
)
class SmoothL1Loss(_Loss):
    """0.5 d^2 / beta where d = |input - target| < beta, else d - 0.5 beta."""


@layer(
    "reduction='mean', delta=1.0",
    "input, target -> F.huber_loss(input, target, reduction=reduction, delta=delta)",
    base="None, None, reduction",
)
class HuberLoss(_Loss):
    """0.5 d^2 where d = |input - target| < delta, else delta (d - 0.5 delta)."""


@layer(computes="input, target -> F.soft_margin_loss(input, target, reduction=reduction)")
class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)), y 1 or -1."""


@layer(
    "weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0",
    "input, target -> F.cross_entropy(input, target, self.weight, ignore_index=ignore_index, "
    "reduction=reduction, label_smoothing=label_smoothing)",
    base="weight, size_average, reduce, reduction",
)
class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or probabilities (N, C, ...)."""


@layer(
    computes="input, target -> F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=reduction)"
)
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over the classes of the binary cross entropy of sigmoid(input)."""


@layer(
    "margin=0.0, size_average=None, reduce=None, reduction='mean'",
    "input1, input2, target -> F.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=reduction)",
    base="size_average, reduce, reduction",
)
class CosineEmbeddingLoss(_Loss):
    """1 - cos(x1, x2) where the target is 1, max(0, cos - margin) where it is -1."""


@layer(
    "margin=0.0, size_average=None, reduce=None, reduction='mean'",
    "input1, input2, target -> F.margin_ranking_loss(input1, input2, target, margin=margin, reduction=reduction)",
    base="size_average, reduce, reduction",
)
class MarginRankingLoss(_Loss):
    """max(0, -y (x1 - x2) + margin)."""


@layer(
    "p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'",
    "input, target -> F.multi_margin_loss(input, target, p=p, margin=margin, weight=self.weight, reduction=reduction)",
    base="weight, size_average, reduce, reduction",
    then="self._check()",
)
class MultiMarginLoss(_WeightedLoss):
    """sum over i != y of max(0, margin - x[y] + x[i])^p / C. ValueError unless p is 1 or 2."""

    def _check(self):
        if self.p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        weight = self.weight
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")


def _positive(margin, loss):
    if margin <= 0:
        raise ValueError(f"{type(loss).__name__}: expected margin to be greater than 0, got {margin} instead")
    return margin


@layer(
    "margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction='mean'",
    "anchor, positive, negative -> F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, "
    "reduction=reduction)",
    base="size_average, reduce, reduction",
    sets={"margin": "_positive(margin, self)"},
)
class TripletMarginLoss(_Loss):
    """max(0, |a - p| - |a - n| + margin)."""


@layer(
    "*, distance_function=None, margin=1.0, swap=False, reduction='mean'",
    "anchor, positive, negative -> F.triplet_margin_with_distance_loss(anchor, positive, negative, "
    "distance_function=distance_function, margin=margin, swap=swap, reduction=reduction)",
    base="None, None, reduction",
    sets={
        "distance_function": "PairwiseDistance() if distance_function is None else distance_function",
        "margin": "_positive(margin, self)",
    },
)
class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of your own."""


@layer(
    "blank=0, reduction='mean', zero_infinity=False",
    "log_probs, targets, input_lengths, target_lengths -> F.ctc_loss(log_probs, targets, input_lengths, "
    "target_lengths, blank, reduction, zero_infinity)",
    base="None, None, reduction",
)
class CTCLoss(_Loss):
    """Connectionist temporal classification (Graves et al. 2006); 'mean' divides each loss by its target's length, then
    means over the batch.
    """
