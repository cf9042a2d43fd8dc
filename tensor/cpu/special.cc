#include "tensor/cpu/special.h"

#include <cmath>

#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/math_scalar.h"

namespace tessera::cpu {
namespace {

// With F = x^a e^-x sum of x^n / Gamma(a + n + 1), the derivative of each term is the term times log x - digamma(a + n + 1), and common factors cancel.
double gamma_gradient(double a, double x) {
  if (!(a > 0) || !(x > 0)) return x == 0 ? 0 : std::nan("");
  if (a > 1e5) {
    // Wilson and Hilferty: x = a c^3 with c = 1 - 1 / (9 a) + z / (3 sqrt(a)) and z fixed.
    const double c = std::cbrt(x / a), dc = 1 / (9 * a * a) - (c - 1 + 1 / (9 * a)) / (2 * a);
    return c * c * c + 3 * a * c * c * dc;
  }
  const double log_x = std::log(x);
  double term = 1 / a, psi = scalar::digamma(a + 1), sum = 0, size = 0;
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

}  // namespace

void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Wide v = static_cast<Wide>(static_cast<const T*>(x)[i]);
          int power = 0;
          static_cast<T*>(mantissa)[i] = static_cast<T>(std::frexp(v, &power));
          exponent[i] = std::isfinite(v) ? power : 0;
        }
      });
    }
  });
}

void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x) {
  parallel_for(n, 1 << 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = gamma_gradient(a[i], x[i]);
  });
}

}  // namespace tessera::cpu
