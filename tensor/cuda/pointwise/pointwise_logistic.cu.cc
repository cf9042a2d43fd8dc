// The logistic function, and derivatives that are expressions of two numbers (g: the gradient of the result, y: the
// result).
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp sigmoid, sigmoid_backward, tanh_backward, logit_backward;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL \
  template <class T> \
  static __device__ T call

struct Sigmoid : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::logistic(x); }
};
struct SigmoidBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T y) {
    if constexpr (is_complex_type<T>)
      return math::mul(g, math::conj(math::mul(T(1) - y, y)));
    else
      return g * (1 - y) * y;
  }
};
struct TanhBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T y) {
    if constexpr (is_complex_type<T>)
      return math::mul(g, math::conj(T(1) - math::mul(y, y)));
    else
      return g * (1 - y * y);
  }
};
struct LogitBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) {
    const bool clamped = !math::is_nan(p[0].f);
    const T low = T(clamped ? p[0].f : 0), high = T(clamped ? 1 - p[0].f : 1);
    return x >= low && x <= high ? g / (x * (1 - x)) : clamped ? T(0) : math::nan<T>();
  }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    math_entry<Sigmoid>(&pw::sigmoid).complexes<Apart<Sigmoid>>(),
    PointwiseEntry{&pw::sigmoid_backward}.floats<SigmoidBackward>().complexes<SigmoidBackward>(),
    PointwiseEntry{&pw::tanh_backward}.floats<TanhBackward>().complexes<TanhBackward>(),
    PointwiseEntry{&pw::logit_backward}.floats<LogitBackward>(),
};

}  // namespace

PointwiseTable logistic_kernels() { return kEntries; }

}  // namespace tessera::cuda
