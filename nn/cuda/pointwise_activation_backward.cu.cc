// Derivatives of the activation functions. g is the gradient of the output.
#include "nn/cuda/pointwise_tables.h"
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp threshold_backward, leaky_relu_backward, elu_backward,
    elu_backward_result, gelu_backward_erf, gelu_backward_tanh, silu_backward, mish_backward, softplus_backward,
    hardtanh_backward, hardsigmoid_backward, hardswish_backward, log_sigmoid_backward, shrink_backward;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL \
  template <class T> \
  static __device__ T call

struct ThresholdBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) { return x <= param<T>(p[0]) ? T(0) : g; }
};
struct LeakyReluBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) { return x > 0 ? g : g * param<T>(p[0]); }
};
struct EluBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) {
    return g * (x > 0 ? T(p[1].f) : T(p[0].f * p[1].f * p[2].f) * std::exp(x * T(p[2].f)));
  }
};
struct EluBackwardResult : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T y) {
    return g * (y > 0 ? T(p[1].f) : T(p[2].f) * (y + T(p[0].f * p[1].f)));
  }
};
struct GeluBackwardErf : Binary {  // g (Phi(x) + x phi(x))
  TESSERA_CALL(const KernelParam*, T g, T x) {
    const T tail = math::normal_tail(x), cdf = x > 0 ? 1 - tail : tail;
    const T pdf = std::exp(x * x * T(-0.5)) * T(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
    const T bounded = math::at_least(math::at_most(x, T(50)), T(-50));  // the density is 0 beyond
    return g * (bounded * pdf + cdf);
  }
};
struct GeluBackwardTanh : Binary {
  TESSERA_CALL(const KernelParam*, T g, T x) {
    constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kKappa = 0.044715;
    const T xx = x * x, t = std::tanh(T(kBeta) * (T(kKappa) * xx * x + x));
    const T inner = T(kBeta) * (T(3 * kKappa) * xx + 1);
    return g * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * inner);
  }
};
struct SiluBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T x) {
    if constexpr (is_complex_type<T>) {
      const T s = math::logistic(x);
      return math::mul(g, math::conj(math::mul(s, T(1) + math::mul(x, T(1) - s))));
    } else {
      const T s = math::logistic(x);
      return g * s * (x * (1 - s) + 1);
    }
  }
};
struct MishBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T x) {
    const T s = math::logistic(x), t = math::tanh_softplus(x);
    return g * (x * s * (1 - t * t) + t);
  }
};
struct SoftplusBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) {
    const T scaled = x * param<T>(p[0]);
    return scaled > param<T>(p[1]) ? g : g * math::logistic(scaled);
  }
};
struct HardtanhBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) { return x > param<T>(p[0]) && x < param<T>(p[1]) ? g : T(0); }
};
struct HardsigmoidBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T x) { return x > -3 && x < 3 ? g * T(1.0 / 6) : T(0); }
};
struct HardswishBackward : Binary {
  TESSERA_CALL(const KernelParam*, T g, T x) { return x <= -3 ? T(0) : x >= 3 ? g : g * (x / 3 + T(0.5)); }
};
struct LogSigmoidBackward : Binary {  // g (1 - sigmoid(x)) = g sigmoid(-x), without cancellation on either side
  TESSERA_CALL(const KernelParam*, T g, T x) {
    const T z = std::exp(-std::abs(x));
    return g * (x < 0 ? T(1) : z) / (1 + z);
  }
};
struct ShrinkBackward : Binary {
  TESSERA_CALL(const KernelParam* p, T g, T x) {
    const T lambda = param<T>(p[0]);
    return x >= -lambda && x <= lambda ? T(0) : g;
  }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::threshold_backward}.floats<ThresholdBackward>().ints<ThresholdBackward>(),
    PointwiseEntry{&pw::leaky_relu_backward}.floats<LeakyReluBackward>(),
    math_entry<EluBackward>(&pw::elu_backward),
    PointwiseEntry{&pw::elu_backward_result}.floats<EluBackwardResult>(),
    math_entry<GeluBackwardErf>(&pw::gelu_backward_erf),
    math_entry<GeluBackwardTanh>(&pw::gelu_backward_tanh),
    math_entry<SiluBackward>(&pw::silu_backward).complexes<Apart<SiluBackward>>(),
    math_entry<MishBackward>(&pw::mish_backward),
    math_entry<SoftplusBackward>(&pw::softplus_backward),
    PointwiseEntry{&pw::hardtanh_backward}.floats<HardtanhBackward>(),
    PointwiseEntry{&pw::hardsigmoid_backward}.floats<HardsigmoidBackward>(),
    PointwiseEntry{&pw::hardswish_backward}.floats<HardswishBackward>(),
    math_entry<LogSigmoidBackward>(&pw::log_sigmoid_backward),
    PointwiseEntry{&pw::shrink_backward}.floats<ShrinkBackward>(),
};

}  // namespace

PointwiseTable activation_backward_kernels() { return kEntries; }

}  // namespace tessera::cuda
