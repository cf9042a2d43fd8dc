#include <cmath>
#include <numbers>

#include "special/special_kernels.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {

// log Gamma_p(x) = p (p - 1) / 4 log(pi) + the sum over i < p of log Gamma(x - i / 2).
Tensor mvlgamma_composite(const Tensor& self, int64_t p) {
  TESSERA_CHECK(p >= 1, "mvlgamma(): p has to be greater than or equal to 1, but it is ", p);
  const double n = static_cast<double>(p), constant = n * (n - 1) / 4 * std::log(std::numbers::pi);
  // lgamma refuses complex numbers.
  const Tensor x = self.is_floating_point() || self.is_complex() ? self : self.to(default_dtype());
  const Tensor steps = arange(Scalar(p), x.dtype(), std::nullopt, x.device()) * -0.5;
  return sum(lgamma(unsqueeze(x, -1) + steps), std::vector<int64_t>{-1}) + constant;
}

}  // namespace tessera::kernels
