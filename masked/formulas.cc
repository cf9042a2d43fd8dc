#include "masked/formulas.h"

#include "autograd/formulas_reduce.h"

namespace tessera::autograd::formulas {

Tensor masked_sum_backward(const Tensor& grad, const Tensor& mask, int64_t rank, IntList dim, bool keepdim, bool mean) {
  const Tensor g = unsqueeze_dims(grad, dim, rank, keepdim);
  return where(mask, mean ? g / sum(mask, dim, true) : g, Scalar(0));
}

Tensor masked_reduce_backward(const Tensor& grad, const Tensor& self, const Tensor& mask, const Tensor& result,
                              std::string_view kind, IntList dim, bool keepdim, double param) {
  const int64_t rank = std::max(self.dim(), mask.dim());
  const Tensor g = unsqueeze_dims(grad, dim, rank, keepdim), r = unsqueeze_dims(result, dim, rank, keepdim);
  if (kind == "amax" || kind == "amin") {
    const Tensor hit = logical_and(eq(self, r), mask);
    return where(hit, g / sum(hit, dim, true), Scalar(0));
  }
  Tensor each;
  if (kind == "var") {
    const Tensor centred = self - _masked_sum(self, mask, dim, true, true);
    each = 2 * g * centred / clamp_min(sum(mask, dim, true) - param, Scalar(0));
  } else if (kind == "logsumexp") {
    each = logsumexp_backward(grad, self, result, dim, keepdim);
  } else if (kind == "prod") {
    each = prod_dim_backward(grad, where(mask, self, Scalar(1)), result, dim.empty() ? 0 : dim[0], keepdim);
  } else {
    const Tensor known = where(mask, self, Scalar(masked_norm_fill(param)));
    each = vector_norm_backward(grad, known, Scalar(param), result, dim, keepdim);
  }
  return where(mask, each, Scalar(0));
}

Tensor softmax_under_tangent(const Tensor& tangent, const Tensor& result, int64_t dim, bool log) {
  const IntVector dims{dim};
  return log ? tangent - sum(exp(result) * tangent, dims, true)
             : result * (tangent - sum(result * tangent, dims, true));
}

}  // namespace tessera::autograd::formulas
