// Activation functions.
#include "nn/cuda/pointwise_tables.h"
#include "tensor/cuda/pointwise/pointwise_math.h"

namespace tessera::pw {
extern __attribute__((weak)) const PointwiseOp threshold, relu, relu6, leaky_relu, elu, celu, selu, gelu_erf, gelu_tanh,
    silu, mish, softplus, hardtanh, hardsigmoid, hardswish, log_sigmoid, softshrink, hardshrink, prelu;
}

namespace tessera::cuda {
namespace {

#define TESSERA_CALL \
  template <class T> \
  static __device__ T call

template <class T>
__device__ T elu_function(T x, T negative, T positive, T input_scale) {
  return x > 0 ? x * positive : std::expm1(x * input_scale) * negative;
}
template <class T>
__device__ T ramp6(T x) {
  return math::at_most(math::at_least(x + 3, T(0)), T(6));
}

struct Threshold : Unary {
  TESSERA_CALL(const KernelParam* p, T x) { return x <= param<T>(p[0]) ? param<T>(p[1]) : x; }
};
struct Relu : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::at_least(x, T(0)); }
};
struct Relu6 : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::at_most(math::at_least(x, T(0)), T(6)); }
};
struct LeakyRelu : Unary {
  TESSERA_CALL(const KernelParam* p, T x) { return x > 0 ? x : x * param<T>(p[0]); }
};
struct Elu : Unary {
  TESSERA_CALL(const KernelParam* p, T x) { return elu_function(x, T(p[0].f * p[1].f), T(p[1].f), T(p[2].f)); }
};
struct Celu : Unary {
  TESSERA_CALL(const KernelParam* p, T x) { return elu_function(x, T(p[0].f), T(1), T(1 / p[0].f)); }
};
struct Selu : Unary {
  TESSERA_CALL(const KernelParam*, T x) {
    constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
    return elu_function(x, T(kAlpha * kScale), T(kScale), T(1));
  }
};
struct GeluErf : Unary {  // x Phi(x) = max(x, 0) - |x| tail(|x|); beyond 40 the tail is 0
  TESSERA_CALL(const KernelParam*, T x) {
    return math::at_least(x, T(0)) - math::at_most(std::abs(x), T(40)) * math::normal_tail(x);
  }
};
struct GeluTanh : Unary {
  TESSERA_CALL(const KernelParam*, T x) {
    constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    return x * T(0.5) * (1 + std::tanh(T(kBeta) * (T(0.044715) * (x * x) * x + x)));
  }
};
struct Silu : Unary {
  TESSERA_CALL(const KernelParam*, T x) {
    if constexpr (is_complex_type<T>)
      return math::div(x, math::one_plus_exp_of_minus(x));
    else
      return x / (1 + std::exp(-x));
  }
};
struct Mish : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return x * math::tanh_softplus(x); }
};
struct Softplus : Unary {
  TESSERA_CALL(const KernelParam* p, T x) {
    const T beta = param<T>(p[0]), scaled = x * beta;
    return scaled > param<T>(p[1]) ? x : std::log1p(std::exp(scaled)) / beta;
  }
};
struct Hardtanh : Unary {
  TESSERA_CALL(const KernelParam* p, T x) {
    using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;  // the bounds may lie outside of T
    return static_cast<T>(math::at_most(math::at_least(static_cast<Wide>(x), param<Wide>(p[0])), param<Wide>(p[1])));
  }
};
struct Hardsigmoid : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return ramp6(x) / 6; }
};
struct Hardswish : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return x * ramp6(x) / 6; }
};
struct LogSigmoid : Unary {
  TESSERA_CALL(const KernelParam*, T x) { return math::at_most(x, T(0)) - std::log1p(std::exp(-std::abs(x))); }
};
struct Softshrink : Unary {
  TESSERA_CALL(const KernelParam* p, T x) {
    const T lambda = param<T>(p[0]);
    return x > lambda ? x - lambda : x < -lambda ? x + lambda : math::is_nan(x) ? x : T(0);
  }
};
struct Hardshrink : Unary {
  TESSERA_CALL(const KernelParam* p, T x) {
    const T lambda = param<T>(p[0]);
    return x >= -lambda && x <= lambda ? T(0) : x;
  }
};
struct Prelu : Binary {
  TESSERA_CALL(const KernelParam*, T x, T w) { return x > 0 ? x : w * x; }
};
#undef TESSERA_CALL

constexpr PointwiseEntry kEntries[] = {
    PointwiseEntry{&pw::threshold}.floats<Threshold>().ints<Threshold>(),
    PointwiseEntry{&pw::relu}
        .floats<Relu>()
        .kernel<Relu, int8_t>()
        .kernel<Relu, int16_t>()
        .kernel<Relu, int32_t>()
        .kernel<Relu, int64_t>()
        .shortcut({DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64}, Shortcut::kCopy),
    PointwiseEntry{&pw::relu6}.floats<Relu6>().ints<Relu6>(),
    PointwiseEntry{&pw::leaky_relu}.floats<LeakyRelu>(),
    math_entry<Elu>(&pw::elu),
    math_entry<Celu>(&pw::celu),
    math_entry<Selu>(&pw::selu),
    math_entry<GeluErf>(&pw::gelu_erf),
    math_entry<GeluTanh>(&pw::gelu_tanh),
    math_entry<Silu>(&pw::silu).complexes<Apart<Silu>>(),
    math_entry<Mish>(&pw::mish),
    math_entry<Softplus>(&pw::softplus),
    PointwiseEntry{&pw::hardtanh}.floats<Hardtanh>().ints<Hardtanh>(),
    PointwiseEntry{&pw::hardsigmoid}.floats<Hardsigmoid>(),
    PointwiseEntry{&pw::hardswish}.floats<Hardswish>(),
    math_entry<LogSigmoid>(&pw::log_sigmoid),
    PointwiseEntry{&pw::softshrink}.floats<Softshrink>(),
    PointwiseEntry{&pw::hardshrink}.floats<Hardshrink>(),
    PointwiseEntry{&pw::prelu}.floats<Prelu>(),
};

}  // namespace

PointwiseTable activation_kernels() { return kEntries; }

}  // namespace tessera::cuda
