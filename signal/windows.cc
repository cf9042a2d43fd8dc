#include "signal/windows.h"

#include <cmath>
#include <numbers>

#include "tensor/ops/api.h"

namespace tessera::signal {
namespace {

DType dtype_of(const Points& p) { return p.dtype.value_or(default_dtype()); }

void check(const Window& w, const Points& p) {
  const DType t = dtype_of(p);
  if (!w.strict) {
    TESSERA_CHECK(p.points >= 0, w.name, " requires non-negative window_length, got window_length=", p.points);
    TESSERA_CHECK(is_floating_point(t), w.name, " expects floating point dtypes, got: ", name_of(t));
    return;
  }
  TESSERA_CHECK_VALUE(p.points >= 0, w.name, " requires non-negative window length, got M=", p.points);
  TESSERA_CHECK_VALUE(!p.layout || *p.layout == Layout::kStrided, w.name,
                      " is implemented for strided tensors only, got another layout");
  TESSERA_CHECK_VALUE(t == DType::kFloat32 || t == DType::kFloat64, w.name,
                      " expects float32 or float64 dtypes, got: ", name_of(t));
}

// N: points of the symmetric window.
int64_t whole(const Points& p) { return p.points + (p.periodic ? 1 : 0); }

// value(positions): the window at 0, 1, ... in float64, which it may overwrite; rounded once to the window's dtype.
template <class F>
Tensor window(const Window& w, const Points& p, const F& value) {
  check(w, p);
  const std::vector<SymInt> size{p.points};
  if (p.points <= 1) return ones(size, dtype_of(p), {}, p.device, {});
  return value(arange(Scalar(p.points), DType::kFloat64, {}, p.device, {})).to(dtype_of(p));
}

}  // namespace

Tensor cosines(const Window& w, const Points& p, std::span<const double> a) {
  TESSERA_CHECK_VALUE(!a.empty(), "Coefficients cannot be empty");
  return window(w, p, [&](const Tensor& k) {
    const Tensor angle = k.mul_(Scalar(2 * std::numbers::pi / static_cast<double>(whole(p) - 1)));
    Tensor sum = full_like(k, Scalar(a[0]), {}, {}, {}, {}, {});
    for (size_t i = 1; i < a.size(); ++i)
      sum.add_(cos_(mul(angle, Scalar(static_cast<double>(i)))), Scalar(i % 2 ? -a[i] : a[i]));
    return sum;
  });
}

Tensor bartlett(const Window& w, const Points& p) {
  return window(w, p, [&](const Tensor& k) {
    const Tensor distance = abs_(k.mul_(Scalar(2 / static_cast<double>(whole(p) - 1))).sub_(Scalar(1)));
    return rsub(distance, Scalar(1), Scalar(1));
  });
}

Tensor kaiser(const Window& w, const Points& p, double beta) {
  if (w.strict) TESSERA_CHECK_VALUE(beta >= 0, "beta must be non-negative, got: ", beta, " instead.");
  return window(w, p, [&](const Tensor& k) {
    const double half = static_cast<double>(whole(p) - 1) / 2;
    const Tensor x = k.div_(Scalar(half)).sub_(Scalar(1));
    const Tensor root = sqrt_(clamp_min_(rsub(mul(x, x), Scalar(1), Scalar(1)), Scalar(0)));
    return div(i0(root.mul_(Scalar(beta))), Scalar(std::cyl_bessel_i(0.0, std::abs(beta))));
  });
}

Tensor cosine(const Window& w, const Points& p) {
  return window(w, p, [&](const Tensor& k) {
    return sin_(k.add_(Scalar(0.5)).mul_(Scalar(std::numbers::pi / static_cast<double>(whole(p)))));
  });
}

Tensor exponential(const Window& w, const Points& p, std::optional<double> center, double tau) {
  TESSERA_CHECK_VALUE(tau > 0, "Tau must be positive, got: ", tau, " instead.");
  TESSERA_CHECK_VALUE(p.periodic || !center, "Center must be None for symmetric windows");
  return window(w, p, [&](const Tensor& k) {
    const double middle = center.value_or(static_cast<double>(whole(p) - 1) / 2);
    return exp_(abs_(k.sub_(Scalar(middle))).mul_(Scalar(-1 / tau)));
  });
}

Tensor gaussian(const Window& w, const Points& p, double std) {
  TESSERA_CHECK_VALUE(std > 0, "Standard deviation must be positive, got: ", std, " instead.");
  return window(w, p, [&](const Tensor& k) {
    const Tensor x =
        k.sub_(Scalar(static_cast<double>(whole(p) - 1) / 2)).mul_(Scalar(1 / (std * std::numbers::sqrt2)));
    return exp_(neg_(mul(x, x)));
  });
}

}  // namespace tessera::signal
