// Series of special functions of one number, for hosts and devices.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

namespace tessera::cpu::scalar {

// e^-|x| times the modified Bessel function I0. Power series for small arguments, the asymptotic expansion e^x / sqrt(2
// pi x) sum ((2k-1)!!)^2 / (k! (8x)^k) (Abramowitz & Stegun 9.6.12 and 9.7.1) for large ones. All terms of both are
// positive, so neither cancels.
constexpr double i0e(double x) {
  const double a = std::abs(x);
  if (x != x) return x;
  double term = 1, sum = 1;
  if (a < 30) {
    const double q = a * a / 4;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) {
      term *= q / (static_cast<double>(k) * k);
      sum += term;
    }
    return sum * std::exp(-a);
  }
  for (int k = 1; k < 30; ++k) {
    const double next = term * (2 * k - 1) * (2 * k - 1) / (8 * a * k);
    if (next >= term || next < sum * 1e-17) break;
    term = next;
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi * a);
}
constexpr double i0(double x) {
  const double a = std::abs(x);
  if (a > 800) return std::numeric_limits<double>::infinity();
  if (a < 700) return i0e(x) * std::exp(a);
  return i0e(x) * std::exp(a / 2) * std::exp(a / 2);
}

// The Hurwitz zeta function, sum over k >= 0 of (q + k)^-s, for q > 0 and s > 1: the first terms, then the
// Euler-Maclaurin formula (NIST DLMF 25.11.5).
constexpr double zeta_positive(double s, double q) {
  const double bernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
  double sum = 0;
  for (; q < 12; ++q) sum += std::pow(q, -s);
  double term = std::pow(q, -s);
  sum += term * q / (s - 1) + 0.5 * term;
  double factor = s / 2;  // s (s + 1) ... (s + 2j - 2) / (2j)!
  for (int j = 1; j <= 8; ++j) {
    term /= j == 1 ? q : q * q;
    sum += bernoulli[j - 1] * factor * term;
    factor *= (s + 2 * j - 1) * (s + 2 * j) / ((2.0 * j + 1) * (2 * j + 2));
  }
  return sum;
}
// For q < 0 of integers s: the sum has two ends, each a zeta function of a positive argument.
constexpr double zeta(double s, double q) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  if (s != s || q != q) return kNan;
  if (s <= 1) return s == 1 ? kInf : kNan;
  if (q > 0) return q == kInf ? 0 : zeta_positive(s, q);
  const double whole = std::floor(q), rest = q - whole;
  if (q == -kInf) return kNan;
  if (rest == 0) return kInf;
  if (std::floor(s) != s) return kNan;
  const double mirrored = zeta_positive(s, 1 - rest) - zeta_positive(s, 1 - rest - whole);
  return zeta_positive(s, rest) + (std::fmod(s, 2) == 0 ? mirrored : -mirrored);
}

}  // namespace tessera::cpu::scalar
