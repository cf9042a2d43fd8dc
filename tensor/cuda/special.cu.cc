// Elementwise functions outside of the elementwise engine.
#include <cmath>

#include "tensor/cuda/engines.h"
#include "tensor/cuda/math.h"
#include "tensor/cuda/types.h"

namespace tessera::cuda {
namespace {

template <class T> struct Frexp {
  T* mantissa;
  int32_t* exponent;
  const T* x;
  __device__ void operator()(int64_t i) const {
    const Compute<T> v = load(x + i);
    int power = 0;
    const bool finite = math::is_finite(v);
    store(mantissa + i, finite ? std::frexp(v, &power) : v);
    exponent[i] = finite ? power : 0;
  }
};

// The series of cpu::run_gamma_gradient.
struct GammaGradient {
  double* out;
  const double* a;
  const double* x;
  __device__ static double of(double a, double x) {
    if (!(a > 0) || !(x > 0)) return x == 0 ? 0 : math::nan();
    if (a > 1e5) {
      const double c = std::cbrt(x / a), dc = 1 / (9 * a * a) - (c - 1 + 1 / (9 * a)) / (2 * a);
      return c * c * c + 3 * a * c * c * dc;
    }
    const double log_x = std::log(x);
    double term = 1 / a, psi = math::digamma(a + 1), sum = 0, size = 0;
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
  __device__ void operator()(int64_t i) const { out[i] = of(a[i], x[i]); }
};

}  // namespace

void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x) {
  visit<kAllFloats>(dtype, "frexp", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(n, Frexp<T>{static_cast<T*>(mantissa), exponent, static_cast<const T*>(x)});
  });
}
void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x) { for_each(n, GammaGradient{out, a, x}); }

}  // namespace tessera::cuda
