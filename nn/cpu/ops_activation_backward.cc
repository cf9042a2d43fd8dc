// Derivatives of the activation functions. g is the gradient of the output.
#include <numbers>

#include "nn/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/ops_activation_backward.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_error-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(ThresholdBackward, 2, 1) X(LeakyReluBackward, 2, 1) X(EluBackward, 2, 3) X(EluBackwardResult, 2, 3) \
  X(GeluBackwardErf, 2, 0) X(GeluBackwardTanh, 2, 0) X(SiluBackward, 2, 0) X(MishBackward, 2, 0) \
  X(SoftplusBackward, 2, 2) X(HardtanhBackward, 2, 2) X(HardsigmoidBackward, 2, 0) X(HardswishBackward, 2, 0) \
  X(LogSigmoidBackward, 2, 0) X(ShrinkBackward, 2, 1)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call

struct ThresholdBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) { return hn::IfThenZeroElse(hn::Le(x, Splat(d, p[0])), g); }
};
struct LeakyReluBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), g, hn::Mul(g, Splat(d, p[0])));
  }
};
struct EluBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    const V slope = hn::Mul(Splat(d, p[0].f * p[1].f * p[2].f), math::Exp(d, hn::Mul(x, Splat(d, p[2]))));
    return hn::Mul(g, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), Splat(d, p[1]), slope));
  }
};
struct EluBackwardResult {
  TESSERA_CALL(D d, const KernelParam* p, V g, V y) {
    const V slope = hn::Mul(Splat(d, p[2]), hn::Add(y, Splat(d, p[0].f * p[1].f)));
    return hn::Mul(g, hn::IfThenElse(hn::Gt(y, hn::Zero(d)), Splat(d, p[1]), slope));
  }
};
struct GeluBackwardErf {  // g (Phi(x) + x phi(x))
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    V gauss;
    const V tail = math::NormalTail(d, x, gauss);
    const V cdf = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(Splat(d, 1.0), tail), tail);
    const V pdf = hn::Mul(gauss, Splat(d, std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2));
    const V bounded = hn::Max(Splat(d, -50.0), hn::Min(Splat(d, 50.0), x));  // the density is 0 beyond
    return hn::Mul(g, hn::MulAdd(bounded, pdf, cdf));
  }
};
struct GeluBackwardTanh {
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    const V beta = Splat(d, std::numbers::sqrt2 * std::numbers::inv_sqrtpi), kappa = Splat(d, 0.044715),
            half = Splat(d, 0.5), one = Splat(d, 1.0);
    const V xx = hn::Mul(x, x);
    const V t = math::Tanh(d, hn::Mul(beta, hn::MulAdd(hn::Mul(kappa, xx), x, x)));
    const V inner = hn::Mul(beta, hn::MulAdd(Splat(d, 3 * 0.044715), xx, one));
    const V right = hn::Mul(hn::Mul(hn::Mul(half, x), hn::NegMulAdd(t, t, one)), inner);
    return hn::Mul(g, hn::MulAdd(half, hn::Add(one, t), right));
  }
};
struct SiluBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    const V one = Splat(d, 1.0), s = math::Logistic(d, x);
    return hn::Mul(hn::Mul(g, s), hn::MulAdd(x, hn::Sub(one, s), one));
  }
};
struct MishBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    const V one = Splat(d, 1.0), s = math::Logistic(d, x), t = math::TanhSoftplus(d, x);
    return hn::Mul(g, hn::MulAdd(hn::Mul(x, s), hn::NegMulAdd(t, t, one), t));
  }
};
struct SoftplusBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    const V scaled = hn::Mul(x, Splat(d, p[0]));
    return hn::IfThenElse(hn::Gt(scaled, Splat(d, p[1])), g, hn::Mul(g, math::Logistic(d, scaled)));
  }
};
struct HardtanhBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    return hn::IfThenElseZero(hn::And(hn::Gt(x, Splat(d, p[0])), hn::Lt(x, Splat(d, p[1]))), g);
  }
};
struct HardsigmoidBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    return hn::IfThenElseZero(hn::And(hn::Gt(x, Splat(d, -3.0)), hn::Lt(x, Splat(d, 3.0))),
                              hn::Mul(g, Splat(d, 1.0 / 6)));
  }
};
struct HardswishBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    const V three = Splat(d, 3.0);
    const V middle = hn::Mul(g, hn::Add(hn::Div(x, three), Splat(d, 0.5)));
    return hn::IfThenZeroElse(hn::Le(x, hn::Neg(three)), hn::IfThenElse(hn::Ge(x, three), g, middle));
  }
};
struct LogSigmoidBackward {  // g (1 - sigmoid(x)) = g sigmoid(-x), without cancellation on either side
  TESSERA_CALL(D d, const KernelParam*, V g, V x) {
    const V one = Splat(d, 1.0), z = math::Exp(d, hn::Neg(hn::Abs(x)));
    return hn::Div(hn::Mul(g, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), one, z)), hn::Add(one, z));
  }
};
struct ShrinkBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    const V lambda = Splat(d, p[0]);
    return hn::IfThenZeroElse(hn::And(hn::Ge(x, hn::Neg(lambda)), hn::Le(x, lambda)), g);
  }
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
struct ThresholdBackwardScalar {
  template <class T>
  static T call(const KernelParam* p, T g, T x) {
    return x <= static_cast<T>(p[0].i) ? T{0} : g;
  }
};
struct SiluBackwardScalar {
  template <class T>
  static T call(const KernelParam*, T g, T x) {
    const T s = div_complex(T(1), T(1) + std::exp(-x));
    return mul_complex(g, std::conj(mul_complex(s, T(1) + mul_complex(x, T(1) - s))));
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp threshold_backward =
    OpBuilder<2, 1>("threshold_cpu").floats(ThresholdBackwardF32, ThresholdBackwardF64).ints<ThresholdBackwardScalar>();
constinit const PointwiseOp leaky_relu_backward =
    OpBuilder<2, 1>("leaky_relu_backward_cpu").floats(LeakyReluBackwardF32, LeakyReluBackwardF64);
constinit const PointwiseOp elu_backward = OpBuilder<2, 3>("elu_backward_cpu").floats(EluBackwardF32, EluBackwardF64);
constinit const PointwiseOp elu_backward_result =
    OpBuilder<2, 3>("elu_backward_cpu").floats(EluBackwardResultF32, EluBackwardResultF64);
constinit const PointwiseOp gelu_backward_erf =
    OpBuilder<2>("GeluBackwardKernelImpl").floats(GeluBackwardErfF32, GeluBackwardErfF64);
constinit const PointwiseOp gelu_backward_tanh =
    OpBuilder<2>("GeluBackwardKernelImpl").floats(GeluBackwardTanhF32, GeluBackwardTanhF64);
constinit const PointwiseOp silu_backward =
    OpBuilder<2>("silu_backward_cpu").floats(SiluBackwardF32, SiluBackwardF64).complexes<SiluBackwardScalar>();
constinit const PointwiseOp mish_backward = OpBuilder<2>("mish_backward_cpu").floats(MishBackwardF32, MishBackwardF64);
constinit const PointwiseOp softplus_backward =
    OpBuilder<2, 2>("softplus_backward_cpu").floats(SoftplusBackwardF32, SoftplusBackwardF64);
constinit const PointwiseOp hardtanh_backward =
    OpBuilder<2, 2>("hardtanh_backward_cpu").floats(HardtanhBackwardF32, HardtanhBackwardF64);
constinit const PointwiseOp hardsigmoid_backward =
    OpBuilder<2>("hardsigmoid_backward").floats(HardsigmoidBackwardF32, HardsigmoidBackwardF64);
constinit const PointwiseOp hardswish_backward =
    OpBuilder<2>("hardswish_backward_cpu").floats(HardswishBackwardF32, HardswishBackwardF64);
constinit const PointwiseOp log_sigmoid_backward =
    OpBuilder<2>("log_sigmoid_backward_cpu").floats(LogSigmoidBackwardF32, LogSigmoidBackwardF64);
constinit const PointwiseOp shrink_backward =
    OpBuilder<2, 1>("shrink_backward_cpu").floats(ShrinkBackwardF32, ShrinkBackwardF64);

}  // namespace pw
}  // namespace tessera
#endif
