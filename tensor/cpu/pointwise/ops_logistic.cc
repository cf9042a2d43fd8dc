// The logistic function, and derivatives that are expressions of two numbers (g: the gradient of the result, y: the
// result).
#include <complex>
#include <limits>

#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_logistic.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

#define TESSERA_OPS(X) X(Sigmoid, 1, 0) X(SigmoidBackward, 2, 0) X(TanhBackward, 2, 0) X(LogitBackward, 2, 1)

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_CALL          \
  template <class D, class V> \
  static HWY_INLINE V Call
struct Sigmoid {
  TESSERA_CALL(D d, const KernelParam*, V x) { return math::Logistic(d, x); }
};
struct SigmoidBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V y) { return hn::Mul(hn::Mul(g, hn::Sub(Splat(d, 1.0), y)), y); }
};
struct TanhBackward {
  TESSERA_CALL(D d, const KernelParam*, V g, V y) { return hn::Mul(g, hn::NegMulAdd(y, y, Splat(d, 1.0))); }
};
struct LogitBackward {
  TESSERA_CALL(D d, const KernelParam* p, V g, V x) {
    const V one = Splat(d, 1.0), inside = hn::Div(g, hn::Mul(x, hn::Sub(one, x)));
    const bool clamped = p[0].f == p[0].f;
    const V low = Splat(d, clamped ? p[0].f : 0.0), high = Splat(d, clamped ? 1.0 - p[0].f : 1.0);
    const V outside = Splat(d, clamped ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    return hn::IfThenElse(hn::And(hn::Ge(x, low), hn::Le(x, high)), inside, outside);
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
struct SigmoidScalar {
  template <class T>
  static T call(const KernelParam*, T x) {
    return div_complex(T(1), T(1) + std::exp(-x));
  }
};
struct SigmoidBackwardScalar {
  template <class T>
  static T call(const KernelParam*, T g, T y) {
    return mul_complex(g, std::conj(mul_complex(T(1) - y, y)));
  }
};
struct TanhBackwardScalar {
  template <class T>
  static T call(const KernelParam*, T g, T y) {
    return mul_complex(g, std::conj(T(1) - mul_complex(y, y)));
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp sigmoid =
    OpBuilder<1>("sigmoid_cpu").floats(SigmoidF32, SigmoidF64).complexes<SigmoidScalar>().int_to_float();
constinit const PointwiseOp sigmoid_backward = OpBuilder<2>("sigmoid_backward_cpu")
                                                   .floats(SigmoidBackwardF32, SigmoidBackwardF64)
                                                   .complexes<SigmoidBackwardScalar>();
constinit const PointwiseOp tanh_backward =
    OpBuilder<2>("tanh_backward_cpu").floats(TanhBackwardF32, TanhBackwardF64).complexes<TanhBackwardScalar>();
constinit const PointwiseOp logit_backward =
    OpBuilder<2, 1>("logit_backward_cpu").floats(LogitBackwardF32, LogitBackwardF64);

}  // namespace pw
}  // namespace tessera
#endif
