#include "tensor/cpu/math/math_scalar.h"

#include <math.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/cpu/math/digamma.h"

namespace tessera::cpu::scalar {
namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
}  // namespace

double lgamma(double x) {
  if (std::isinf(x)) return kInf;
#if defined(__GLIBC__)
  int sign;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

float lgamma(float x) {
  if (std::isinf(x)) return std::numeric_limits<float>::infinity();
#if defined(__GLIBC__)
  int sign;
  return ::lgammaf_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

// Reflection (Abramowitz & Stegun 6.3.7) for negative x.
double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (std::isnan(x) || x == -kInf) return kNan;
  if (x > 0) return digamma_of_positive(x);
  double whole;
  const double fraction = std::modf(x, &whole);
  if (fraction == 0) return kNan;
  return digamma_of_positive(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
}

}  // namespace tessera::cpu::scalar
