#include "special/formulas.h"

#include <limits>

namespace tessera::autograd::formulas {

// i0e(x) - i1e(x) (sgn(x) + 1 / x); next to 0, where that would be 0 / 0, i1e(x) / x is 1/2.
Tensor i1e_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  const Tensor small = lt(abs(self), std::numeric_limits<float>::epsilon());
  const Tensor x = masked_fill(self, small, 1);
  const Tensor quotient = where(small, full_like(self, 0.5), special_i1e(x) / x);
  return grad * (special_i0e(self) - sgn(self) * result - quotient);
}

}  // namespace tessera::autograd::formulas
