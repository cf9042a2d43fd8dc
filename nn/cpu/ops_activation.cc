// Activation functions.
#include <numbers>

#include "nn/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/ops_activation.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_error-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Threshold, 1, 2) X(Relu, 1, 0) X(Relu6, 1, 0) X(LeakyRelu, 1, 1) X(Elu, 1, 3) X(Celu, 1, 1) X(Selu, 1, 0) \
  X(GeluErf, 1, 0) X(GeluTanh, 1, 0) X(Silu, 1, 0) X(Mish, 1, 0) X(Softplus, 1, 2) X(Hardtanh, 1, 2) \
  X(Hardsigmoid, 1, 0) X(Hardswish, 1, 0) X(LogSigmoid, 1, 0) X(Softshrink, 1, 1) X(Hardshrink, 1, 1) X(Prelu, 2, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
// max(x, low) and min(x, high) that keep a nan and the zero of x: the instructions return their second operand if
// either is nan or both are equal.
template <class V>
HWY_INLINE V AtLeast(V x, V low) {
  return hn::Max(low, x);
}
template <class V>
HWY_INLINE V AtMost(V x, V high) {
  return hn::Min(high, x);
}
template <class D, class V>
HWY_INLINE V EluFunction(D d, V x, V negative, V positive, V input_scale) {
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Mul(x, positive),
                        hn::Mul(math::Expm1(d, hn::Mul(x, input_scale)), negative));
}

struct Threshold {
  TESSERA_CALL(D d, const KernelParam* p, V x) { return hn::IfThenElse(hn::Le(x, Splat(d, p[0])), Splat(d, p[1]), x); }
};
struct Relu {
  TESSERA_CALL(D d, const KernelParam*, V x) { return AtLeast(x, hn::Zero(d)); }
};
struct Relu6 {
  TESSERA_CALL(D d, const KernelParam*, V x) { return AtMost(AtLeast(x, hn::Zero(d)), Splat(d, 6.0)); }
};
struct LeakyRelu {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, Splat(d, p[0])));
  }
};
struct Elu {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    return EluFunction(d, x, Splat(d, p[0].f * p[1].f), Splat(d, p[1]), Splat(d, p[2]));
  }
};
struct Celu {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    return EluFunction(d, x, Splat(d, p[0]), Splat(d, 1.0), Splat(d, 1.0 / p[0].f));
  }
};
struct Selu {
  TESSERA_CALL(D d, const KernelParam*, V x) {
    constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
    return EluFunction(d, x, Splat(d, kAlpha * kScale), Splat(d, kScale), Splat(d, 1.0));
  }
};
struct GeluErf {  // x Phi(x) = max(x, 0) - |x| tail(|x|); beyond 20 the tail is 0
  TESSERA_CALL(D d, const KernelParam*, V x) {
    return hn::NegMulAdd(hn::Min(Splat(d, 20.0), hn::Abs(x)), math::NormalTail(d, x), hn::Max(Splat(d, -0.0), x));
  }
};
struct GeluTanh {
  TESSERA_CALL(D d, const KernelParam*, V x) {
    const V beta = Splat(d, std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    const V inner = hn::Mul(beta, hn::MulAdd(hn::Mul(Splat(d, 0.044715), hn::Mul(x, x)), x, x));
    return hn::Mul(hn::Mul(x, Splat(d, 0.5)), hn::Add(Splat(d, 1.0), math::Tanh(d, inner)));
  }
};
struct Silu {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Div(x, hn::Add(Splat(d, 1.0), math::Exp(d, hn::Neg(x)))); }
};
struct Mish {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Mish(d, x); }
};
struct Softplus {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    const V beta = Splat(d, p[0]), scaled = hn::Mul(x, beta);
    return hn::IfThenElse(hn::Gt(scaled, Splat(d, p[1])), x, hn::Div(math::Log1p(d, math::Exp(d, scaled)), beta));
  }
};
struct Hardtanh {
  TESSERA_CALL(D d, const KernelParam* p, V x) { return AtMost(AtLeast(x, Splat(d, p[0])), Splat(d, p[1])); }
};
template <class D, class V>
HWY_INLINE V Ramp6(D d, V x) {
  return AtMost(AtLeast(hn::Add(x, Splat(d, 3.0)), hn::Zero(d)), Splat(d, 6.0));
}
struct Hardsigmoid {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Div(Ramp6(d, x), Splat(d, 6.0)); }
};
struct Hardswish {
  TESSERA_CALL(D d, const KernelParam*, V x) { return hn::Div(hn::Mul(x, Ramp6(d, x)), Splat(d, 6.0)); }
};
struct LogSigmoid {
  TESSERA_CALL(D d, const KernelParam*, V x) {
    return hn::Sub(AtMost(x, hn::Zero(d)), math::Log1p(d, math::Exp(d, hn::Neg(hn::Abs(x)))));
  }
};
struct Softshrink {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    const V lambda = Splat(d, p[0]);
    const V small = hn::IfThenElse(hn::IsNaN(x), x, hn::Zero(d));
    return hn::IfThenElse(hn::Gt(x, lambda), hn::Sub(x, lambda),
                          hn::IfThenElse(hn::Lt(x, hn::Neg(lambda)), hn::Add(x, lambda), small));
  }
};
struct Hardshrink {
  TESSERA_CALL(D d, const KernelParam* p, V x) {
    const V lambda = Splat(d, p[0]);
    return hn::IfThenZeroElse(hn::And(hn::Ge(x, hn::Neg(lambda)), hn::Le(x, lambda)), x);
  }
};
struct Prelu {
  TESSERA_CALL(D d, const KernelParam*, V x, V w) { return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(w, x)); }
};
#undef TESSERA_CALL

TESSERA_OPS(TESSERA_DEFINE_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {
struct ThresholdScalar {
  template <class T>
  static T call(const KernelParam* p, T x) {
    return x <= static_cast<T>(p[0].i) ? static_cast<T>(p[1].i) : x;
  }
};
struct ReluScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return x < T{0} ? T{0} : x;
  }
};
struct Relu6Scalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return x < T{0} ? T{0} : x > T{6} ? T{6} : x;
  }
};
struct HardtanhScalar {
  template <class T>
  static T call(const KernelParam* p, T x) {
    const int64_t v = static_cast<int64_t>(x), low = v < p[0].i ? p[0].i : v;
    return static_cast<T>(low > p[1].i ? p[1].i : low);
  }
};
struct SiluScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return div_complex(x, T(1) + std::exp(-x));
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp threshold =
    OpBuilder<1, 2>("threshold_cpu").floats(ThresholdF32, ThresholdF64).ints<ThresholdScalar>();
constinit const PointwiseOp relu =
    OpBuilder<1>("clamp_scalar_cpu").floats(ReluF32, ReluF64).ints<ReluScalar>().wide<ReluScalar>();
constinit const PointwiseOp relu6 = OpBuilder<1>("hardtanh_cpu").floats(Relu6F32, Relu6F64).ints<Relu6Scalar>();
constinit const PointwiseOp leaky_relu = OpBuilder<1, 1>("leaky_relu_cpu").floats(LeakyReluF32, LeakyReluF64);
constinit const PointwiseOp elu = OpBuilder<1, 3>("elu_cpu").floats(EluF32, EluF64);
constinit const PointwiseOp celu = OpBuilder<1, 1>("elu_cpu").floats(CeluF32, CeluF64);
constinit const PointwiseOp selu = OpBuilder<1>("elu_cpu").floats(SeluF32, SeluF64);
constinit const PointwiseOp gelu_erf = OpBuilder<1>("GeluKernelImpl").floats(GeluErfF32, GeluErfF64);
constinit const PointwiseOp gelu_tanh = OpBuilder<1>("GeluKernelImpl").floats(GeluTanhF32, GeluTanhF64);
constinit const PointwiseOp silu = OpBuilder<1>("silu_cpu").floats(SiluF32, SiluF64).complexes<SiluScalar>();
constinit const PointwiseOp mish = OpBuilder<1>("mish_cpu").floats(MishF32, MishF64);
constinit const PointwiseOp softplus = OpBuilder<1, 2>("softplus_cpu").floats(SoftplusF32, SoftplusF64);
constinit const PointwiseOp hardtanh =
    OpBuilder<1, 2>("hardtanh_cpu").floats(HardtanhF32, HardtanhF64).ints<HardtanhScalar>();
constinit const PointwiseOp hardsigmoid = OpBuilder<1>("hardsigmoid_cpu").floats(HardsigmoidF32, HardsigmoidF64);
constinit const PointwiseOp hardswish = OpBuilder<1>("hardswish_cpu").floats(HardswishF32, HardswishF64);
constinit const PointwiseOp log_sigmoid = OpBuilder<1>("log_sigmoid_cpu").floats(LogSigmoidF32, LogSigmoidF64);
constinit const PointwiseOp softshrink = OpBuilder<1, 1>("softshrink_cpu").floats(SoftshrinkF32, SoftshrinkF64);
constinit const PointwiseOp hardshrink = OpBuilder<1, 1>("hardshrink_cpu").floats(HardshrinkF32, HardshrinkF64);
constinit const PointwiseOp prelu = OpBuilder<2>("prelu_cpu").floats(PreluF32, PreluF64);

}  // namespace pw
}  // namespace tessera
#endif
