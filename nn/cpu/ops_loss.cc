// Losses element by element, and their derivatives (g: the gradient of the result, x: input, t: target).
#include <limits>

#include "nn/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/ops_loss.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Mse, 2, 0) X(SmoothL1, 2, 1) X(Huber, 2, 1) X(Bce, 2, 0) X(BceWithLogits, 2, 0) X(MseBackward, 3, 0) \
  X(SmoothL1Backward, 3, 1) X(HuberBackward, 3, 1) X(BceBackward, 3, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct Mse {
  TESSERA_CALL(D, const KernelParam*, V x, V t) {
    const V e = hn::Sub(x, t);
    return hn::Mul(e, e);
  }
};
struct SmoothL1 {
  TESSERA_CALL(D d, const KernelParam* p, V x, V t) {
    const V half = Splat(d, 0.5), beta = Splat(d, p[0]), e = hn::Abs(hn::Sub(x, t));
    return hn::IfThenElse(hn::Lt(e, beta), hn::Div(hn::Mul(hn::Mul(half, e), e), beta), hn::NegMulAdd(half, beta, e));
  }
};
struct Huber {
  TESSERA_CALL(D d, const KernelParam* p, V x, V t) {
    const V half = Splat(d, 0.5), delta = Splat(d, p[0]), e = hn::Abs(hn::Sub(x, t));
    return hn::IfThenElse(hn::Le(e, delta), hn::Mul(hn::Mul(half, e), e),
                          hn::Mul(delta, hn::NegMulAdd(half, delta, e)));
  }
};
struct Bce {
  TESSERA_CALL(D d, const KernelParam*, V x, V t) {
    const V floor = Splat(d, -100.0);  // Max returns its second operand if either is nan
    const V log_x = hn::Max(floor, math::Log(d, x)), log_rest = hn::Max(floor, math::Log1p(d, hn::Neg(x)));
    return hn::Sub(hn::Mul(hn::Sub(t, Splat(d, 1.0)), log_rest), hn::Mul(t, log_x));
  }
};
struct BceWithLogits {  // (1 - t) x + log(1 + e^-x) = max(x, 0) - t x + log1p(e^-|x|): nothing overflows, nothing
                        // cancels at t = 0
  TESSERA_CALL(D d, const KernelParam*, V x, V t) {
    const V rest = math::Log1p(d, math::Exp(d, hn::Neg(hn::Abs(x))));
    return hn::Add(hn::NegMulAdd(t, x, hn::Max(hn::Zero(d), x)), rest);
  }
};
struct MseBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x, V t) { return hn::Mul(hn::Mul(Splat(d, 2.0), hn::Sub(x, t)), g); }
};
struct SmoothL1Backward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x, V t) {
    const V beta = Splat(d, p[0]), e = hn::Sub(x, t);
    const V inside = hn::Div(hn::Mul(g, e), beta);
    return hn::IfThenElse(hn::Le(e, hn::Neg(beta)), hn::Neg(g), hn::IfThenElse(hn::Ge(e, beta), g, inside));
  }
};
struct HuberBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x, V t) {
    const V delta = Splat(d, p[0]), e = hn::Sub(x, t);
    return hn::Mul(
        g, hn::IfThenElse(hn::Lt(e, hn::Neg(delta)), hn::Neg(delta), hn::IfThenElse(hn::Gt(e, delta), delta, e)));
  }
};
struct BceBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V x, V t) {
    const V variance = hn::Max(Splat(d, 1e-12), hn::Mul(hn::Sub(Splat(d, 1.0), x), x));
    return hn::Div(hn::Mul(g, hn::Sub(x, t)), variance);
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

}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp mse = OpBuilder<2>("mse_cpu").floats(MseF32, MseF64);
constinit const PointwiseOp smooth_l1 = OpBuilder<2, 1>("smooth_l1_cpu").floats(SmoothL1F32, SmoothL1F64);
constinit const PointwiseOp huber = OpBuilder<2, 1>("huber_cpu").floats(HuberF32, HuberF64);
constinit const PointwiseOp bce = OpBuilder<2>("binary_cross_entropy").floats(BceF32, BceF64);
constinit const PointwiseOp bce_with_logits =
    OpBuilder<2>("binary_cross_entropy_with_logits").floats(BceWithLogitsF32, BceWithLogitsF64);
constinit const PointwiseOp mse_backward = OpBuilder<3>("mse_backward_cpu_out").floats(MseBackwardF32, MseBackwardF64);
constinit const PointwiseOp smooth_l1_backward =
    OpBuilder<3, 1>("smooth_l1_backward_cpu_out").floats(SmoothL1BackwardF32, SmoothL1BackwardF64);
constinit const PointwiseOp huber_backward =
    OpBuilder<3, 1>("huber_backward_cpu_out").floats(HuberBackwardF32, HuberBackwardF64);
constinit const PointwiseOp bce_backward =
    OpBuilder<3>("binary_cross_entropy_backward").floats(BceBackwardF32, BceBackwardF64);

}  // namespace pw
}  // namespace tessera
#endif
