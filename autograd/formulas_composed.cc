#include "autograd/formulas_composed.h"

#include "autograd/formulas_pointwise.h"

namespace tessera::autograd::formulas {
namespace {

enum { kSum, kProd, kMean, kMax, kMin };

// For 'mean': how many values met in each place.
Tensor counts_of(const Tensor& grad, int64_t dim, const Tensor& index, bool include_self) {
  const Tensor met = scatter_add(full_like(grad, Scalar(include_self ? 1 : 0), DType::kInt64), dim, index,
                                 ones_like(index, DType::kInt64));
  return to(clamp(met, Scalar(1)), grad.dtype());
}
// For 'amax' and 'amin': the gradient of a place, divided by the number of values that reached the extreme.
Tensor shared_out(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  const Tensor& result) {
  const Tensor reached = to(eq(src, gather(result, dim, index)), grad.dtype());
  return div(grad, clamp(scatter_add(to(eq(self, result), grad.dtype()), dim, index, reached), Scalar(1)));
}

}  // namespace

Tensor scatter_reduce_backward_self(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                    const Tensor& src, int64_t reduce, bool include_self, const Tensor& result) {
  Tensor r = grad;
  if (reduce == kProd) {
    const Tensor filled = masked_fill(self, eq(self, Scalar(0)), Scalar(1));
    r = mul(grad, conj_of(div(_scatter_reduce(filled, dim, index, src, reduce, include_self), filled)));
  } else if (reduce == kMean) {
    r = div(grad, counts_of(grad, dim, index, include_self));
  } else if (reduce == kMax || reduce == kMin) {
    r = mul(shared_out(grad, self, dim, index, src, result), to(eq(self, result), grad.dtype()));
  }
  return include_self ? r : scatter(r, dim, index, Scalar(0));
}

Tensor scatter_reduce_backward_src(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index,
                                   const Tensor& src, int64_t reduce, bool include_self, const Tensor& result) {
  if (reduce == kSum) return gather(grad, dim, index);
  if (reduce == kMean) return gather(div(grad, counts_of(grad, dim, index, include_self)), dim, index);
  if (reduce == kMax || reduce == kMin)
    return mul(gather(shared_out(grad, self, dim, index, src, result), dim, index),
               to(eq(src, gather(result, dim, index)), grad.dtype()));
  // The product of the others: result / src, or where src is the only zero the product without it.
  const Tensor zero = eq(src, Scalar(0));
  const Tensor zeros_met = gather(scatter_add(zeros_like(self), dim, index, to(zero, self.dtype())), dim, index);
  const Tensor only_zero = logical_and(zero, eq(zeros_met, Scalar(1)));
  const Tensor without =
      _scatter_reduce(self, dim, index, masked_fill(src, only_zero, Scalar(1)), reduce, include_self);
  return where(only_zero, gather(mul(grad, conj_of(without)), dim, index),
               div(gather(mul(grad, conj_of(result)), dim, index), conj_of(masked_fill(src, zero, Scalar(1)))));
}

}  // namespace tessera::autograd::formulas
