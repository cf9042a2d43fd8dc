// Losses as functions.
#pragma once

#include <cmath>

#include <torch/nn/functional/linear.h>

namespace torch::nn::functional {

namespace detail {
// Both in their common shape, with a warning if that was not theirs.
inline std::vector<Raw> same_shape(const Tensor& input, const Tensor& target) {
  if (!same_sizes(input, target))
    TORCH_WARN("Using a target size (", target.sizes(), ") that is different to the input size (", input.sizes(),
               "). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same "
               "size.");
  return at::broadcast_tensors(std::vector<Raw>{input, target});
}
}  // namespace detail

inline Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossFuncOptions& o = {}) {
  const auto both = detail::same_shape(input, target);
  return at::l1_loss(both[0], both[1], detail::reduction(o.reduction()));
}
inline Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossFuncOptions& o = {}) {
  const auto both = detail::same_shape(input, target);
  return at::mse_loss(both[0], both[1], detail::reduction(o.reduction()));
}
inline Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& o, double beta) {
  const auto both = detail::same_shape(input, target);
  const int64_t reduction = detail::reduction(o.reduction());
  return beta == 0 ? at::l1_loss(both[0], both[1], reduction) : at::smooth_l1_loss(both[0], both[1], reduction, beta);
}
inline Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1LossFuncOptions& o = {}) {
  return smooth_l1_loss(input, target, o, o.beta().value_or(1.0));
}
inline Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossFuncOptions& o = {}) {
  const auto both = detail::same_shape(input, target);
  return at::huber_loss(both[0], both[1], detail::reduction(o.reduction()), o.delta());
}
inline Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& o = {}) {
  const std::string name = enumtype::get_enum_name(o.reduction());
  if (name == "kMean")
    TORCH_WARN(
        "reduction: 'mean' divides the total loss by both the batch size and the support size."
        "'batchmean' divides only by the batch size, and aligns with the KL div math definition.");
  const int64_t reduction = name == "kNone" ? 0 : name == "kMean" ? 1 : 2;
  const detail::Raw loss = at::kl_div(input, target, reduction, o.log_target());
  return name == "kBatchMean" && input.dim() != 0 ? at::div(loss, input.size(0)) : loss;
}
inline Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                   const BinaryCrossEntropyFuncOptions& o = {}) {
  TORCH_CHECK_VALUE(detail::same_sizes(input, target), "Using a target size (", target.sizes(),
                    ") that is different to the input size (", input.sizes(),
                    ") is deprecated. Please ensure they have the same size.");
  detail::Raw weight = o.weight();
  if (weight.defined()) weight = at::broadcast_tensors(std::vector<detail::Raw>{target, weight})[1];
  return at::binary_cross_entropy(input, target, weight, detail::reduction(o.reduction()));
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                               const BinaryCrossEntropyWithLogitsFuncOptions& o = {}) {
  TORCH_CHECK_VALUE(detail::same_sizes(input, target), "Target size (", target.sizes(),
                    ") must be the same as input size (", input.sizes(), ")");
  return at::binary_cross_entropy_with_logits(input, target, o.weight(), o.pos_weight(),
                                              detail::reduction(o.reduction()));
}
inline Tensor cross_entropy(const Tensor& input, const Tensor& target, const CrossEntropyFuncOptions& o = {}) {
  return at::cross_entropy_loss(input, target, o.weight(), detail::reduction(o.reduction()), o.ignore_index(),
                                o.label_smoothing());
}
inline Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossFuncOptions& o = {}) {
  return at::nll_loss_nd(input, target, o.weight(), detail::reduction(o.reduction()), o.ignore_index());
}
inline Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                                   const HingeEmbeddingLossFuncOptions& o = {}) {
  return at::hinge_embedding_loss(input, target, o.margin(), detail::reduction(o.reduction()));
}
inline Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const SoftMarginLossFuncOptions& o = {}) {
  return at::soft_margin_loss(input, target, detail::reduction(o.reduction()));
}
inline Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginLossFuncOptions& o = {}) {
  TORCH_CHECK(o.p() == 1 || o.p() == 2, "only p == 1 and p == 2 supported");
  TORCH_CHECK(!o.weight().defined() || o.weight().dim() == 1, "weight must be one-dimensional");
  return at::multi_margin_loss(input, target, o.p(), o.margin(), o.weight(), detail::reduction(o.reduction()));
}
inline Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                                     const MultilabelMarginLossFuncOptions& o = {}) {
  return at::multilabel_margin_loss(input, target, detail::reduction(o.reduction()));
}
inline Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                          const MultilabelSoftMarginLossFuncOptions& o = {}) {
  using detail::Raw;
  const Raw yes = at::mul(target, at::log_sigmoid(input));
  const Raw no = at::mul(at::rsub(target, 1), at::log_sigmoid(at::neg(input)));
  Raw loss = at::neg(at::add(yes, no));
  if (o.weight().defined()) loss = at::mul(loss, o.weight());
  const int64_t classes[] = {input.dim() - 1};
  return detail::reduced(at::mean(loss, at::IntArrayRef(classes)), detail::reduction(o.reduction()));
}
inline Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                                    const CosineEmbeddingLossFuncOptions& o = {}) {
  return at::cosine_embedding_loss(input1, input2, target, o.margin(), detail::reduction(o.reduction()));
}
inline Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                                  const MarginRankingLossFuncOptions& o = {}) {
  TORCH_CHECK(input1.dim() == input2.dim() && input1.dim() == target.dim(),
              "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: ",
              input1.sizes(), ", input2: ", input2.sizes(), ", target: ", target.sizes());
  return at::margin_ranking_loss(input1, input2, target, o.margin(), detail::reduction(o.reduction()));
}
inline Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  const TripletMarginLossFuncOptions& o = {}) {
  return at::triplet_margin_loss(anchor, positive, negative, o.margin(), o.p(), o.eps(), o.swap(),
                                 detail::reduction(o.reduction()));
}
inline Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                                const TripletMarginWithDistanceLossFuncOptions& o = {}) {
  using detail::Raw;
  const auto distance = [&](const Tensor& a, const Tensor& b) -> Raw {
    return o.distance_function() ? (*o.distance_function())(a, b) : at::pairwise_distance(a, b);
  };
  const Raw near = distance(anchor, positive);
  Raw far = distance(anchor, negative);
  if (o.swap()) far = at::minimum(far, distance(positive, negative));
  const Raw loss = at::clamp_min(at::add(at::sub(near, far), o.margin()), 0);
  return detail::reduced(loss, detail::reduction(o.reduction()));
}
inline Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNLLLossFuncOptions& o = {}) {
  return at::poisson_nll_loss(input, target, o.log_input(), o.full(), o.eps(), detail::reduction(o.reduction()));
}
// Negative log likelihood under normal distributions; var, of the input's shape or one that broadcasts to it, is
// clamped at eps without a gradient there.
inline Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                                const GaussianNLLLossFuncOptions& o = {}) {
  using detail::Raw;
  TORCH_CHECK_VALUE(!at::any(at::lt(var, 0)).item<bool>(), "var has negative entry/entries");
  Raw v = at::clone(var);
  if (v.dim() + 1 == input.dim()) v = at::unsqueeze(v, -1);
  TORCH_CHECK_VALUE(v.dim() == input.dim() && (v.size(-1) == 1 || v.size(-1) == input.size(-1)),
                    "var is of incorrect size");
  {
    at::NoGradGuard no_grad;
    at::clamp_min_(v, o.eps());
  }
  Raw off = at::sub(input, target);
  Raw loss = at::mul(at::add(at::log(v), at::div(at::mul(off, off), v)), 0.5);
  if (o.full()) loss = at::add(loss, 0.5 * std::log(2 * M_PI));
  return detail::reduced(loss, detail::reduction(o.reduction()));
}

// log_probs (T, N, C) or (T, C), targets (N, S) or all in one row, lengths (N) of both (Graves et al. 2006).
inline Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, const CTCLossFuncOptions& o = {}) {
  using detail::Raw;
  const bool batched = log_probs.dim() == 3;
  TORCH_CHECK(batched || log_probs.dim() == 2, "log_probs must have 2 or 3 dimensions, but got ", log_probs.dim());
  const Raw scores = batched ? Raw(log_probs) : at::unsqueeze(log_probs, 1);
  const Raw labels = batched || targets.dim() != 1 ? Raw(targets) : at::unsqueeze(targets, 0);
  const auto lengths = [&](const Raw& given, const char* name, int64_t most) {
    TORCH_CHECK(!given.is_floating_point(), name, " must be integral");
    const Raw numbers = at::contiguous(at::reshape(given, {-1}).to(at::kCPU, at::kInt64));
    detail::Sizes list(numbers.data<int64_t>(), numbers.data<int64_t>() + numbers.numel());
    TORCH_CHECK(static_cast<int64_t>(list.size()) == scores.size(1), name, " must be of size batch_size");
    for (int64_t n : list)
      TORCH_CHECK(n >= 0 && n <= most, "Expected ", name, " to have value at most ", most, " and at least 0, but got ",
                  n);
    return list;
  };
  const auto ins = lengths(input_lengths, "input_lengths", scores.size(0));
  const auto outs = lengths(target_lengths, "target_lengths", std::numeric_limits<int64_t>::max());
  Raw loss =
      std::get<0>(at::_ctc_loss(scores, labels, detail::ints(ins), detail::ints(outs), o.blank(), o.zero_infinity()));
  if (o.zero_infinity())
    loss = at::where(at::eq(loss, std::numeric_limits<double>::infinity()), at::zeros_like(loss), loss);
  const int64_t reduction = detail::reduction(o.reduction());
  if (reduction == 1) {
    const Raw counts = at::reshape(target_lengths, {-1}).to(loss.device(), loss.scalar_type());
    return at::mean(at::div(loss, at::clamp_min(counts, 1)));
  }
  return reduction == 2 ? at::sum(loss) : batched ? loss : at::squeeze(loss, 0);
}

}  // namespace torch::nn::functional
