// Losses element by element, and their derivatives (g: the gradient of the result, x: input, t: target).
#include "nn/cuda/pointwise_tables.h"
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp mse, smooth_l1, huber, bce, bce_with_logits, mse_backward,
    smooth_l1_backward, huber_backward, bce_backward;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL \
  template <class T> \
  static __device__ T call

struct Mse : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) { return (x - t) * (x - t); }
};
struct SmoothL1 : Binary {
  TESSERA_CALL(const KernelParam* p, T x, T t) {
    const T beta = param<T>(p[0]), e = std::abs(x - t);
    return e < beta ? T(0.5) * e * e / beta : e - T(0.5) * beta;
  }
};
struct Huber : Binary {
  TESSERA_CALL(const KernelParam* p, T x, T t) {
    const T delta = param<T>(p[0]), e = std::abs(x - t);
    return e <= delta ? T(0.5) * e * e : delta * (e - T(0.5) * delta);
  }
};
struct Bce : Binary {
  TESSERA_CALL(const KernelParam*, T x, T t) {
    const T log_x = math::at_least(std::log(x), T(-100)), log_rest = math::at_least(std::log1p(-x), T(-100));
    return (t - 1) * log_rest - t * log_x;
  }
};
struct BceWithLogits : Binary {  // (1 - t) x + log(1 + e^-x) = max(x, 0) - t x + log1p(e^-|x|): nothing overflows,
                                 // nothing cancels at t = 0
  TESSERA_CALL(const KernelParam*, T x, T t) {
    return math::at_least(x, T(0)) - t * x + std::log1p(std::exp(-std::abs(x)));
  }
};
struct MseBackward : Ternary {
  TESSERA_CALL(const KernelParam*, T g, T x, T t) { return 2 * (x - t) * g; }
};
struct SmoothL1Backward : Ternary {
  TESSERA_CALL(const KernelParam* p, T g, T x, T t) {
    const T beta = param<T>(p[0]), e = x - t;
    return e <= -beta ? -g : e >= beta ? g : g * e / beta;
  }
};
struct HuberBackward : Ternary {
  TESSERA_CALL(const KernelParam* p, T g, T x, T t) {
    const T delta = param<T>(p[0]), e = x - t;
    return g * (e < -delta ? -delta : e > delta ? delta : e);
  }
};
struct BceBackward : Ternary {
  TESSERA_CALL(const KernelParam*, T g, T x, T t) { return g * (x - t) / math::at_least((1 - x) * x, T(1e-12)); }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::mse}.floats<Mse>(),
    PointwiseEntry{&pw::smooth_l1}.floats<SmoothL1>(),
    PointwiseEntry{&pw::huber}.floats<Huber>(),
    math_entry<Bce>(&pw::bce),
    math_entry<BceWithLogits>(&pw::bce_with_logits),
    PointwiseEntry{&pw::mse_backward}.floats<MseBackward>(),
    PointwiseEntry{&pw::smooth_l1_backward}.floats<SmoothL1Backward>(),
    PointwiseEntry{&pw::huber_backward}.floats<HuberBackward>(),
    PointwiseEntry{&pw::bce_backward}.floats<BceBackward>(),
};

}  // namespace

PointwiseTable loss_kernels() { return kEntries; }

}  // namespace tessera::cuda
