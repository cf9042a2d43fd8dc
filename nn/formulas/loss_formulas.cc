#include "nn/formulas/loss_formulas.h"

namespace tessera::autograd::formulas {

using kernels::weighted;

Tensor within(const Tensor& both, const Tensor& self, const Tensor& target, double bound, double slope) {
  return masked_fill(mul(both, Scalar(slope)), ge(abs(sub(self, target)), Scalar(bound)), 0);
}

Tensor bce_variance(const Tensor& x) { return clamp_min(mul(x, rsub(x, 1)), Scalar(1e-12)); }
Tensor bce_second(const Tensor& both, const Tensor& self, const Tensor& target) {
  // d/dx (x - t) / (x - x^2) = (x^2 - 2 x t + t) / (x - x^2)^2
  const Tensor v = bce_variance(self);
  return div(mul(both, add(sub(mul(self, self), mul(mul(self, target), Scalar(2))), target)), mul(v, v));
}
Tensor binary_cross_entropy_target_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                            const Tensor& weight, int64_t reduction) {
  const Tensor slope = sub(clamp_min(log1p(neg(self)), -100), clamp_min(log(self), -100));
  const Tensor laid = kernels::target_as(target, self);
  const Tensor g = mul(weighted(kernels::spread(grad, self, laid, reduction), weight), slope);
  return laid.is_same(target) ? g : g.reshape(target.sizes());
}

namespace {
// Of each element: the mean is over the loss, which a weight may broadcast.
Tensor element_gradient(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                        const Tensor& pos_weight, int64_t reduction) {
  if (reduction != 1) return weighted(grad, weight);
  IntVector shape = infer_broadcast(self.sizes(), target.sizes());
  if (weight.defined()) shape = infer_broadcast(shape, weight.sizes());
  if (pos_weight.defined()) shape = infer_broadcast(shape, pos_weight.sizes());
  return weighted(div(grad, Scalar(static_cast<double>(checked_numel(shape)))), weight);
}
}  // namespace

Tensor bce_with_logits_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                                const Tensor& pos_weight, int64_t reduction) {
  const Tensor g = element_gradient(grad, self, target, weight, pos_weight, reduction);
  if (!pos_weight.defined()) return mul(g, sub(sigmoid(self), target));
  const Tensor positive = mul(pos_weight, target);
  return mul(g, sub(mul(add(positive, rsub(target, 1)), sigmoid(self)), positive));
}
Tensor bce_with_logits_target_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                       const Tensor& weight, const Tensor& pos_weight, int64_t reduction) {
  const Tensor g = element_gradient(grad, self, target, weight, pos_weight, reduction);
  if (!pos_weight.defined()) return neg(mul(g, self));
  return mul(g, sub(log_sigmoid(neg(self)), mul(pos_weight, log_sigmoid(self))));
}

Tensor smoothed_nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                             int64_t reduction, SymInt ignore_index, double smoothing, const Tensor& total_weight) {
  const int64_t ignore = ignore_index.guard_int();
  if (!grad_mode_enabled()) {
    const Tensor at_once =
        kernels::smoothed_loss_gradient(grad, self, target, weight, reduction, ignore, smoothing, total_weight);
    if (at_once.defined()) return at_once;
  }
  const Tensor shares = neg(kernels::smoothed_shares(self, target, weight, ignore, smoothing));
  if (reduction == 0) return mul(shares, unsqueeze(grad, self.dim() > 1 ? 1 : 0));
  return mul(reduction == 1 ? div(shares, total_weight) : shares, grad);
}

}  // namespace tessera::autograd::formulas
