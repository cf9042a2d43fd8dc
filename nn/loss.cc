// Losses by elements, binary cross entropy, and those made of other operators. Losses by classes are in
// loss_classes.cc.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>

#include "nn/loss_extra.h"
#include "nn/loss_kernels.h"
#include "nn/nn_ops.h"
#include "tensor/core/transforms.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/api.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {

Tensor reduced(const Tensor& loss, int64_t reduction) {
  TESSERA_CHECK_VALUE(reduction >= 0 && reduction <= 2, reduction,
                      " is not a valid value for reduction: 0 (none), 1 (mean) or 2 (sum)");
  return reduction == 0 ? loss : reduction == 1 ? mean(loss) : sum(loss);
}
Tensor spread(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction) {
  if (reduction != 1) return grad;
  return div(grad, Scalar(static_cast<double>(checked_numel(infer_broadcast(self.sizes(), target.sizes())))));
}
Tensor target_as(const Tensor& target, const Tensor& self) {
  if (std::ranges::equal(target.sizes(), self.sizes())) return target;
  const auto is_long = [](int64_t n) { return n != 1; };
  return std::ranges::equal(target.sizes() | std::views::filter(is_long), self.sizes() | std::views::filter(is_long))
             ? target.reshape(self.sizes())
             : target;
}
Tensor weighted(const Tensor& t, const Tensor& weight) { return weight.defined() ? mul(t, weight) : t; }

void check_beta(const Tensor&, const Tensor&, double beta) {
  TESSERA_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta, got ", beta);
}
void check_delta(const Tensor&, const Tensor&, double delta) {
  TESSERA_CHECK(delta > 0, "huber_loss does not support non-positive values for delta, got ", delta);
}

Tensor poisson_nll_loss_composite(const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
                                  int64_t reduction) {
  Tensor loss = log_input ? sub(exp(input), mul(target, input)) : sub(input, mul(target, log(add(input, Scalar(eps)))));
  if (full) {
    const Tensor stirling =
        add(sub(mul(target, log(target)), target), mul(log(mul(target, Scalar(2 * std::numbers::pi))), Scalar(0.5)));
    loss = add(loss, masked_fill(stirling, le(target, 1), 0));
  }
  return reduced(loss, reduction);
}
Tensor kl_div_composite(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  TESSERA_CHECK(!self.is_complex() && !target.is_complex(), "kl_div: expected real tensors, got ",
                name_of(self.dtype()), " and ", name_of(target.dtype()));
  return reduced(log_target ? mul(exp(target), sub(target, self)) : sub(xlogy(target, target), mul(target, self)),
                 reduction);
}

// --- binary cross entropy ---

namespace {
void check_probabilities(const Tensor& self) {
  if (values_unknown(self) || self.numel() == 0) return;
  const auto check = PointwiseEngines::of(self.device().type).check_elements;
  if (check && plain_on_device({&self}) && is_floating_point(self.dtype()) && item_size(self.dtype()) > 1) {
    const Tensor x = contiguous(self);
    internal::select_device(x.device(), "check_elements");
    return check(x.dtype(), x.numel(), x.data_ptr(), ElementCheck::kProbabilities);
  }
  TESSERA_CHECK(item(all(logical_and(ge(self, 0), le(self, 1)))).to_bool(),
                "all elements of input should be between 0 and 1");
}
}  // namespace
Tensor binary_cross_entropy_composite(const Tensor& self, const Tensor& target, const Tensor& weight,
                                      int64_t reduction) {
  check_probabilities(self);
  return reduced(weighted(_bce_elements(self, target_as(target, self)), weight), reduction);
}
Tensor bce_with_logits_composite(const Tensor& self, const Tensor& target, const Tensor& weight,
                                 const Tensor& pos_weight, int64_t reduction) {
  if (!pos_weight.defined()) return reduced(weighted(_bce_logits_elements(self, target), weight), reduction);
  // Only the log of the positive class is weighted: (1 - t) x + (1 + (pos_weight - 1) t) log(1 + e^-x).
  const Tensor log_weight = add(mul(add(pos_weight, -1), target), 1);
  const Tensor loss = sub(mul(rsub(target, 1), self), mul(log_weight, log_sigmoid(self)));
  return reduced(weighted(loss, weight), reduction);
}

// --- margins ---

Tensor hinge_embedding_loss_composite(const Tensor& self, const Tensor& target, double margin, int64_t reduction) {
  const Tensor zero = zeros_like(self);
  return reduced(
      add(where(ne(target, 1), clamp_min(rsub(self, Scalar(margin)), 0), zero), where(ne(target, -1), self, zero)),
      reduction);
}
Tensor margin_ranking_loss_composite(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                                     int64_t reduction) {
  TESSERA_CHECK(input1.dim() == input2.dim() && input1.dim() == target.dim(),
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: ",
                shape_string(input1.sizes()), ", input2: ", shape_string(input2.sizes()),
                ", target: ", shape_string(target.sizes()), " ");
  return reduced(clamp_min(add(mul(neg(target), sub(input1, input2)), Scalar(margin)), 0), reduction);
}
Tensor cosine_embedding_loss_composite(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                                       int64_t reduction) {
  TESSERA_CHECK(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
  TESSERA_CHECK(input1.dim() == target.dim() + 1 && input2.dim() == target.dim() + 1, target.dim(),
                "D target tensor expects ", target.dim() + 1, "D input tensors, but found inputs with sizes ",
                shape_string(input1.sizes()), " and ", shape_string(input2.sizes()), ".");
  const int64_t dims[1] = {target.dim()};
  const auto total = [&](const Tensor& a, const Tensor& b) {
    return sum(mul(a, b), IntList(dims), false, std::nullopt);
  };
  constexpr double kEps = 1e-12;
  const Tensor lengths = sqrt(mul(add(total(input1, input1), Scalar(kEps)), add(total(input2, input2), Scalar(kEps))));
  const Tensor cosine = div(total(input1, input2), lengths), zero = zeros_like(cosine);
  return reduced(add(where(eq(target, 1), rsub(cosine, 1), zero),
                     where(eq(target, -1), clamp_min(sub(cosine, Scalar(margin)), 0), zero)),
                 reduction);
}
Tensor triplet_margin_loss_composite(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                     double margin, double p, double eps, bool swap, int64_t reduction) {
  TESSERA_CHECK_VALUE(margin > 0, "margin must be greater than 0, got ", margin);
  TESSERA_CHECK(
      anchor.dim() == positive.dim() && positive.dim() == negative.dim(),
      "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor ",
      anchor.dim(), "D, positive ", positive.dim(), "D, and negative ", negative.dim(), "D inputs");
  Tensor far = pairwise_distance(anchor, negative, p, eps, false);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps, false));
  return reduced(clamp_min(add(sub(pairwise_distance(anchor, positive, p, eps, false), far), Scalar(margin)), 0),
                 reduction);
}

// --- distances ---

namespace {
Tensor last_norm(const Tensor& t, double p, bool keepdim) {
  const int64_t last[1] = {-1};
  return linalg_vector_norm(t, Scalar(p), IntList(last), keepdim, std::nullopt);
}
}  // namespace

Tensor pairwise_distance_composite(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  return last_norm(add(sub(x1, x2), Scalar(eps)), p, keepdim);
}

Tensor cosine_similarity_composite(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  const DType t = result_type(x1, x2);
  TESSERA_CHECK(is_floating_point(t), "expected common dtype to be floating point, yet common dtype is ",
                type_name_of(t));
  const IntVector sizes = infer_broadcast(x1.sizes(), x2.sizes());
  const int64_t dims[1] = {dim};
  const auto unit = [&](const Tensor& x0) {
    const Tensor x = expand(to(x0, t), sizes), length = linalg_vector_norm(x, 2, IntList(dims), true, std::nullopt);
    // The bound has no gradient of its own: so a zero vector gets one that is not nan.
    const Tensor missing = clamp_min(rsub(detach(length), Scalar(eps)), 0);
    return div(x, add(length, missing));
  };
  return sum(mul(unit(x1), unit(x2)), IntList(dims), false, std::nullopt);
}

Tensor pdist_composite(const Tensor& self, double p) {
  TESSERA_CHECK(self.dim() == 2, "pdist only supports 2D tensors, got: ", self.dim(), "D");
  TESSERA_CHECK(self.is_floating_point(), "pdist only supports floating-point dtypes");
  TESSERA_CHECK(p >= 0, "pdist only supports non-negative p values");
  const int64_t n = self.sizes()[0];
  const Tensor pairs = triu_indices(n, n, 1, DType::kInt64, std::nullopt, self.device());
  return last_norm(sub(index_select(self, 0, select(pairs, 0, 0)), index_select(self, 0, select(pairs, 0, 1))),
                   self.sizes()[1] == 0 ? 2 : p, false);  // of nothing, which has no largest number
}

}  // namespace tessera::kernels
