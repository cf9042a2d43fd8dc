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

// Power series for small arguments, the asymptotic expansion e^x / sqrt(2 pi x) sum ((2k-1)!!)^2 / (k! (8x)^k)
// (Abramowitz & Stegun 9.6.12 and 9.7.1) for large ones. All terms of both are positive, so neither cancels.
double i0e(double x) {
  const double a = std::abs(x);
  if (std::isnan(x)) return x;
  if (a < 30) {
    const double q = a * a / 4;
    double term = 1, sum = 1;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) {
      term *= q / (static_cast<double>(k) * k);
      sum += term;
    }
    return sum * std::exp(-a);
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) {
    const double next = term * (2 * k - 1) * (2 * k - 1) / (8 * a * k);
    if (next >= term || next < sum * 1e-17) break;
    term = next;
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi * a);
}

double i0(double x) {
  const double a = std::abs(x);
  if (a < 700) return i0e(x) * std::exp(a);
  return i0e(x) * std::exp(a / 2) * std::exp(a / 2);
}

// As i0e: the power series (9.6.10), and the asymptotic expansion, whose terms after the first are all negative and
// small.
double i1(double x) {
  const double a = std::abs(x);
  if (std::isnan(x) || std::isinf(x)) return kNan;
  if (a < 30) {
    const double q = a * a / 4;
    double term = 1, sum = 1;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) {
      term *= q / (static_cast<double>(k) * (k + 1));
      sum += term;
    }
    return sum * x / 2;
  }
  if (a > 800) return std::copysign(kInf, x);
  double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) {
    const double next = term * ((2 * k - 1) * (2 * k - 1) - 4) / (8 * a * k);
    if (std::abs(next) >= std::abs(term) || std::abs(next) < sum * 1e-17) break;
    term = next;
    sum += term;
  }
  return std::copysign(sum / std::sqrt(2 * std::numbers::pi * a) * std::exp(a / 2) * std::exp(a / 2), x);
}

}  // namespace tessera::cpu::scalar
