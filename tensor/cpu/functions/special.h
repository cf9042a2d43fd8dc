// Elementwise functions that are not kernels of the elementwise engine: several results of different dtypes, or long
// computations. Contiguous data.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/core/dtype.h"
#include "tensor/cpu/math/digamma.h"

namespace tessera::cpu {

// x = mantissa 2^exponent with a mantissa in [0.5, 1); exponent 0 for zero, infinities and NaN. float16, bfloat16,
// float32, float64.
void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x);

// How a gamma number x moves with its concentration a while its place in the distribution stays: -(dF/da) / (dF/dx) of
// the distribution function F.
void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x);

// Where x is so far above a that the series of gamma_gradient cancels: what is left above x, Gamma(a, x), is x^a e^-x /
// b with the continued fraction b = x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)) (DLMF 8.9.2),
// evaluated forwards (Lentz) with its derivative by a.
constexpr bool is_far_above(double a, double x) { return x > a + 4 * std::sqrt(a) + 10; }
constexpr double gamma_gradient_far_above(double a, double x) {
  double b = x + 1 - a, d = 1 / b, d_slope = d * d, c = 0, c_slope = 0, h = d, h_slope = d_slope;
  for (int i = 1; i < 100000; ++i) {
    const double numerator = -i * (i - a);
    b += 2;
    const double below = numerator * d + b, below_slope = i * d + numerator * d_slope - 1;
    c_slope = i == 1 ? -1 : -1 + i / c - numerator * c_slope / (c * c);
    c = i == 1 ? b : b + numerator / c;
    d = 1 / below;
    d_slope = -below_slope * d * d;
    const double factor = d * c, factor_slope = d_slope * c + d * c_slope;
    h_slope = h_slope * factor + h * factor_slope;
    h *= factor;
    if (std::abs(factor - 1) < 2e-16 && std::abs(factor_slope * h) <= 2e-16 * std::abs(h_slope)) break;
  }
  return x * (h * (std::log(x) - scalar::digamma_of_positive(a)) + h_slope);
}

// The series behind it, for hosts and devices. With F = x^a e^-x sum of x^n / Gamma(a + n + 1), the derivative of each
// term is the term times log x - digamma(a + n + 1), and common factors cancel.
constexpr double gamma_gradient(double a, double x) {
  if (!(a > 0) || !(x > 0)) return x == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  if (a > 1e5) {
    // Wilson and Hilferty: x = a c^3 with c = 1 - 1 / (9 a) + z / (3 sqrt(a)) and z fixed.
    const double c = std::cbrt(x / a), dc = 1 / (9 * a * a) - (c - 1 + 1 / (9 * a)) / (2 * a);
    return c * c * c + 3 * a * c * c * dc;
  }
  if (is_far_above(a, x)) return gamma_gradient_far_above(a, x);
  const double log_x = std::log(x);
  double term = 1 / a, psi = scalar::digamma_of_positive(a + 1), sum = 0, size = 0;
  for (int n = 1; n < 1000000; ++n) {
    sum += term * (log_x - psi);
    size += term;
    const double k = a + n;
    psi += 1 / k;
    term *= x / k;
    if (k > x && term * (std::abs(log_x - psi) + 1) < 1e-17 * size) break;
  }
  return -x * sum;
}

}  // namespace tessera::cpu
