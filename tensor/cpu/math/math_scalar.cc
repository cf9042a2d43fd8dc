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

namespace {
// The Hurwitz zeta function, sum over k >= 0 of (q + k)^-s, for q > 0 and s > 1: the first terms, then the
// Euler-Maclaurin formula (NIST DLMF 25.11.5).
double zeta_positive(double s, double q) {
  static constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                          5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  double sum = 0;
  for (; q < 12; ++q) sum += std::pow(q, -s);
  double term = std::pow(q, -s);
  sum += term * q / (s - 1) + 0.5 * term;
  double factor = s / 2;  // s (s + 1) ... (s + 2j - 2) / (2j)!
  for (int j = 1; j <= 8; ++j) {
    term /= j == 1 ? q : q * q;
    sum += kBernoulli[j - 1] * factor * term;
    factor *= (s + 2 * j - 1) * (s + 2 * j) / ((2.0 * j + 1) * (2 * j + 2));
  }
  return sum;
}
}  // namespace

// Below 0 the sum has two ends, each a zeta function of a positive argument.
double zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q)) return kNan;
  if (s <= 1) return s == 1 ? kInf : kNan;
  if (q > 0) return std::isinf(q) ? 0 : zeta_positive(s, q);
  const double whole = std::floor(q), rest = q - whole;
  if (rest == 0) return std::isinf(q) ? kNan : kInf;
  if (std::floor(s) != s) return kNan;
  const double mirrored = zeta_positive(s, 1 - rest) - zeta_positive(s, 1 - rest - whole);
  return zeta_positive(s, rest) + (std::fmod(s, 2) == 0 ? mirrored : -mirrored);
}

}  // namespace tessera::cpu::scalar
