#include "signal/windows.h"

#include <cmath>
#include <numbers>

#include "tensor/ops/api.h"
#include "tensor/ops/windows.h"

namespace tessera::signal {
namespace {

DType dtype_of(const Points& p) { return p.dtype.value_or(default_dtype()); }

void check(const Points& p) {
  const DType t = dtype_of(p);
  TESSERA_CHECK_VALUE(p.points >= 0, p.name, " requires non-negative window length, got M=", p.points);
  TESSERA_CHECK_VALUE(!p.layout || *p.layout == Layout::kStrided, p.name,
                      " is implemented for strided tensors only, got another layout");
  TESSERA_CHECK_VALUE(t == DType::kFloat32 || t == DType::kFloat64, p.name,
                      " expects float32 or float64 dtypes, got: ", name_of(t));
}

// N: points of the symmetric window.
int64_t whole(const Points& p) { return p.points + (p.periodic ? 1 : 0); }

// value(positions): the window at 0, 1, ... in float64, which it may overwrite; rounded once to the window's dtype. A
// single point is 1, but for windows that have their center elsewhere.
template <class F>
Tensor window(const Points& p, const F& value, bool centered = true) {
  check(p);
  const std::vector<SymInt> size{p.points};
  if (p.points == 0 || (p.points == 1 && centered)) return ones(size, dtype_of(p), {}, p.device, {});
  return value(arange(Scalar(p.points), DType::kFloat64, {}, p.device, {})).to(dtype_of(p));
}

}  // namespace

Tensor cosines(const Points& p, std::span<const double> a) {
  check(p);
  TESSERA_CHECK_VALUE(p.points == 0 || !a.empty(), "Coefficients cannot be empty");
  return kernels::cosine_window(p.points, p.periodic, a, dtype_of(p), p.device);
}

Tensor bartlett(const Points& p) {
  check(p);
  return bartlett_window(p.points, p.periodic, dtype_of(p), {}, p.device, {});
}

Tensor kaiser(const Points& p, double beta) {
  TESSERA_CHECK_VALUE(beta >= 0, "beta must be non-negative, got: ", beta, " instead.");
  check(p);
  return kaiser_window(p.points, p.periodic, beta, dtype_of(p), {}, p.device, {});
}

Tensor cosine(const Points& p) {
  return window(p, [&](const Tensor& k) {
    return sin_(k.add_(Scalar(0.5)).mul_(Scalar(std::numbers::pi / static_cast<double>(whole(p)))));
  });
}

Tensor exponential(const Points& p, std::optional<double> center, double tau) {
  TESSERA_CHECK_VALUE(tau > 0, "Tau must be positive, got: ", tau, " instead.");
  TESSERA_CHECK_VALUE(p.periodic || !center, "Center must be None for symmetric windows");
  return window(
      p,
      [&](const Tensor& k) {
        const double middle = center.value_or(static_cast<double>(whole(p) - 1) / 2);
        return exp_(abs_(k.sub_(Scalar(middle))).mul_(Scalar(-1 / tau)));
      },
      !center);
}

Tensor gaussian(const Points& p, double std) {
  TESSERA_CHECK_VALUE(std > 0, "Standard deviation must be positive, got: ", std, " instead.");
  return window(p, [&](const Tensor& k) {
    const Tensor x =
        k.sub_(Scalar(static_cast<double>(whole(p) - 1) / 2)).mul_(Scalar(1 / (std * std::numbers::sqrt2)));
    return exp_(neg_(mul(x, x)));
  });
}

}  // namespace tessera::signal
