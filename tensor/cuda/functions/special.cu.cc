// Elementwise functions outside of the elementwise engine.
#include <cmath>

#include "tensor/cpu/functions/special.h"
#include "tensor/cuda/functions/engines.h"
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

template <class T>
struct Frexp {
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

struct GammaGradient {
  double* out;
  const double* a;
  const double* x;
  __device__ void operator()(int64_t i) const { out[i] = cpu::gamma_gradient(a[i], x[i]); }
};

}  // namespace

void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x) {
  visit<kAllFloats>(dtype, "frexp", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(n, Frexp<T>{static_cast<T*>(mantissa), exponent, static_cast<const T*>(x)});
  });
}
void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x) {
  for_each(n, GammaGradient{out, a, x});
}

}  // namespace tessera::cuda
