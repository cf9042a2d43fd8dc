// Samplers, their implicit derivatives, and checks.
#include <cmath>
#include <cstdint>
#include <limits>

#include "distributions/all_ops.h"
#include "distributions/cpu/beta_gradient.h"
#include "distributions/samplers_kernels.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

void check_concentrations(const Tensor& self) {
  TESSERA_CHECK_NOT_IMPLEMENTED(self.dtype() == DType::kFloat32 || self.dtype() == DType::kFloat64,
                                "\"dirichlet\" not implemented for '", type_name_of(self.dtype()), "'");
  TESSERA_CHECK(self.dim() >= 1, "_sample_dirichlet: expected at least one dimension, but got none");
}
void check_gradient_arguments(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  for (const Tensor* t : {&x, &alpha, &total}) {
    TESSERA_CHECK_NOT_IMPLEMENTED(t->dtype() == DType::kFloat32 || t->dtype() == DType::kFloat64,
                                  "\"_dirichlet_grad_cpu\" not implemented for '", type_name_of(t->dtype()), "'");
    TESSERA_CHECK(t->dtype() == x.dtype() && t->device() == x.device(),
                  "_dirichlet_grad: expected x, alpha and total of one dtype and device, but got ",
                  type_name_of(t->dtype()), " on ", t->device().str(), " beside ", type_name_of(x.dtype()), " on ",
                  x.device().str());
  }
}

}  // namespace

Tensor sample_dirichlet_meta(const Tensor& self, const Generator&) {
  check_concentrations(self);
  return empty_like(self);
}
// Gamma numbers in double, each over their sum; none is 0 or 1, since somebody may want a logarithm of it or its rest.
Tensor _sample_dirichlet_kernel(const Tensor& self, const Generator& generator) {
  check_concentrations(self);
  const Tensor numbers = _standard_gamma(to(self, DType::kFloat64), generator);
  const Tensor shares = to(numbers / sum(numbers, IntVector{-1}, true), self.dtype());
  const bool single = self.dtype() == DType::kFloat32;
  const double least = single ? double{std::numeric_limits<float>::min()} : std::numeric_limits<double>::min();
  const double rest = single ? double{std::numeric_limits<float>::epsilon()} : std::numeric_limits<double>::epsilon();
  return clamp(shares, least, 1 - rest / 2);
}

Tensor dirichlet_grad_meta(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  check_gradient_arguments(x, alpha, total);
  return new_empty(x, broadcast_shapes({&x, &alpha, &total}));
}
Tensor _dirichlet_grad_kernel(const Tensor& x, const Tensor& alpha, const Tensor& total) {
  check_gradient_arguments(x, alpha, total);
  const IntVector shape = broadcast_shapes({&x, &alpha, &total});
  const auto brought = [&](const Tensor& t) {
    return contiguous(expand(to(t, Device(DeviceType::kCPU), DType::kFloat64), shape));
  };
  const Tensor at = brought(x), a = brought(alpha), sum = brought(total), r = empty_like(at);
  cpu::beta_gradient(r.numel(), r.data_ptr<double>(), at.data_ptr<double>(), a.data_ptr<double>(),
                     sum.data_ptr<double>(), x.dtype() == DType::kFloat32 ? 1e-9 : 1e-15);
  return to(r, x.device(), x.dtype());
}

bool _dist_all_within_kernel(const Tensor& self, double low, double high, int64_t kind) {
  TESSERA_CHECK(kind >= 0 && kind < 8, "_dist_all_within: expected kind from 0 to 7, but got ", kind);
  TESSERA_CHECK(!self.is_complex(), "_dist_all_within: expected real numbers, but got ", type_name_of(self.dtype()));
  const bool low_open = kind & 1, high_open = kind & 2, whole = kind & 4;
  const auto all_of = [&](const auto* x, int64_t n) {
    bool good = true;
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]);
      good &= (low_open ? v > low : v >= low) & (high_open ? v < high : v <= high);
    }
    for (int64_t i = 0; good && whole && i < n; ++i)
      good = std::floor(static_cast<double>(x[i])) == static_cast<double>(x[i]);
    return good;
  };
  if (self.device().type == DeviceType::kCPU && self.is_contiguous()) {
    if (self.dtype() == DType::kFloat32) return all_of(self.data_ptr<float>(), self.numel());
    if (self.dtype() == DType::kFloat64) return all_of(self.data_ptr<double>(), self.numel());
    if (self.dtype() == DType::kInt64) return all_of(self.data_ptr<int64_t>(), self.numel());
  }
  const Tensor x = self.is_floating_point() ? self : to(self, DType::kFloat64);
  Tensor good = logical_and(low_open ? gt(x, low) : ge(x, low), high_open ? lt(x, high) : le(x, high));
  if (whole) good = logical_and(good, eq(floor(x), x));
  return all(good).item<bool>();
}

}  // namespace tessera::kernels
