#include "nn/formulas/distance_formulas.h"

#include "autograd/formulas.h"
#include "nn/distance_rule.h"
#include "tensor/ops/dual.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor cdist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                      std::optional<int64_t> compute_mode, const Tensor& distances) {
  const int64_t last[1] = {-1};
  if (grad_mode_enabled() || any_dual(grad, x1, x2) || !grad.is_cpu()) {
    // Differentiable, and for any device: over the differences of all pairs.
    const Tensor difference = sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
    const int64_t others[1] = {-2};
    return sum(vector_norm_backward(grad, difference, Scalar(p), distances, IntList(last), false), IntList(others));
  }
  if (!by_product(x1.size(-2), x2.size(-2), p, compute_mode)) return _cdist_backward(grad, x1, x2, p, distances);
  const Tensor weights = masked_fill(div(grad, distances), eq(distances, Scalar(0)), Scalar(0));
  return sub(mul(x1, sum(weights, IntList(last), true)), matmul(weights, x2));
}

Tensor cdist_tangent(const Tensor& x1_t, const Tensor& x2_t, const Tensor& x1, const Tensor& x2, double p,
                     const Tensor& distances) {
  const int64_t last[1] = {-1};
  const Tensor difference = sub(unsqueeze(x1, -2), unsqueeze(x2, -3));
  const Tensor weights =
      vector_norm_backward(ones_like(distances), difference, Scalar(p), distances, IntList(last), false);
  Tensor moved = x1_t.defined() ? unsqueeze(x1_t, -2) : Tensor();
  if (x2_t.defined()) moved = moved.defined() ? sub(moved, unsqueeze(x2_t, -3)) : neg(unsqueeze(x2_t, -3));
  return reduced_tangent(moved, weights, OptionalDims(IntList(last)), false);
}

}  // namespace tessera::autograd::formulas
