// Error functions, gamma functions and their like.
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/cpu/math/math_scalar.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/ops_special.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_bessel-inl.h"
#include "tensor/cpu/math/math_gamma-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"
#include "tensor/cpu/pointwise/through_double-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Erf, 1, 0) X(Erfc, 1, 0) X(Erfinv, 1, 0) X(Logit, 1, 1) X(Lgamma, 1, 0) X(Digamma, 1, 0) X(Sinc, 1, 0) \
  X(I0, 1, 0) X(I1, 1, 0) X(Entr, 1, 0) X(Polygamma, 1, 1)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

#define TESSERA_FUNCTION1(Name)                              \
  struct Name {                                              \
    template <class D, class V>                              \
    static HWY_INLINE V Call(D d, const KernelParam*, V x) { \
      return math::Name(d, x);                               \
    }                                                        \
  };
TESSERA_FUNCTION1(Erf)
TESSERA_FUNCTION1(Erfc)
TESSERA_FUNCTION1(Lgamma)
TESSERA_FUNCTION1(Digamma)
TESSERA_FUNCTION1(I0)
TESSERA_FUNCTION1(I1)
#undef TESSERA_FUNCTION1
struct Erfinv {
  static constexpr bool kStaged = true;
  template <class D, class V>
  static HWY_INLINE V First(D d, const KernelParam*, V x) {
    return math::ErfinvLog(d, x);
  }
  template <class D, class V>
  static HWY_INLINE V Second(D d, const KernelParam*, V log, V x) {
    return math::ErfinvByLog(d, log, x);
  }
};
struct Logit {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam* p, V x) {
    if (p[0].f == p[0].f) x = hn::Min(Splat(d, 1.0 - p[0].f), hn::Max(Splat(d, p[0]), x));  // nan stays
    return math::Log(d, hn::Div(x, hn::Sub(Splat(d, 1.0), x)));
  }
};
// (-1)^(n+1) n! zeta(n + 1, x); the poles, 0 and the negative integers, are infinite.
struct Polygamma {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam* p, V x) {
    const double n = p[0].f, sign = std::fmod(n, 2) == 0 ? -1 : 1, factor = sign * std::tgamma(n + 1);
    const auto positive = [n, factor](auto dd, auto v) HWY_ATTR {
      const auto q = hn::Min(hn::Max(hn::Set(dd, 1e-300), v), hn::Set(dd, 1e300));
      const auto r = hn::Mul(math::ZetaDouble(dd, hn::Set(dd, n + 1), q), hn::Set(dd, factor));
      return hn::IfThenElse(hn::IsNaN(v), v, hn::IfThenZeroElse(hn::IsInf(v), r));
    };
    V r;
    if constexpr (sizeof(TOf<D>) == 4)
      r = math::InDouble(d, positive, x);
    else
      r = positive(d, x);
    return math::SomeLanes(d, hn::Le(x, hn::Zero(d)), x, r, [n, factor](auto v) {
      return static_cast<decltype(v)>(factor * scalar::zeta(n + 1, static_cast<double>(v)));
    });
  }
};
struct Sinc {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam*, V x) {
    const V y = hn::Mul(x, Splat(d, std::numbers::pi));
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), Splat(d, 1.0), hn::Div(math::Sin(d, y), y));
  }
};
struct Entr {  // nan passes both comparisons
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam*, V x) {
    const V zero = hn::Zero(d), y = hn::Neg(hn::Mul(x, math::Log(d, x)));
    return hn::IfThenElse(hn::Lt(x, zero), Splat(d, -std::numeric_limits<double>::infinity()),
                          hn::IfThenElse(hn::Eq(x, zero), zero, y));
  }
};

TESSERA_OPS(TESSERA_DEFINE_LONG_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {
struct SincComplex {
  template <class T>
  static T call(const KernelParam*, T x) {
    if (x == T(0)) return T(1);
    const T y = x * static_cast<typename T::value_type>(std::numbers::pi);
    return div_complex(std::sin(y), y);
  }
};
}  // namespace
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp erf = OpBuilder<1>("erf_vml_cpu").floats(ErfF32, ErfF64).int_to_float();
constinit const PointwiseOp erfc = OpBuilder<1>("erfc_vml_cpu").floats(ErfcF32, ErfcF64).int_to_float();
constinit const PointwiseOp erfinv = OpBuilder<1>("erfinv_vml_cpu").floats(ErfinvF32, ErfinvF64).int_to_float();
constinit const PointwiseOp logit = OpBuilder<1, 1>("logit_cpu").floats(LogitF32, LogitF64).int_to_float();
constinit const PointwiseOp lgamma = OpBuilder<1>("lgamma_vml_cpu").floats(LgammaF32, LgammaF64).int_to_float();
constinit const PointwiseOp digamma = OpBuilder<1>("digamma").floats(DigammaF32, DigammaF64).int_to_float();
constinit const PointwiseOp polygamma = OpBuilder<1, 1>("polygamma").floats(PolygammaF32, PolygammaF64).int_to_float();
constinit const PointwiseOp sinc =
    OpBuilder<1>("sinc_cpu").floats(SincF32, SincF64).complexes<SincComplex>().int_to_float();
constinit const PointwiseOp entr = OpBuilder<1>("entr_cpu").floats(EntrF32, EntrF64).int_to_float();
constinit const PointwiseOp i0 = OpBuilder<1>("i0").floats(I0F32, I0F64).int_to_float();
constinit const PointwiseOp i1 = OpBuilder<1>("i1").floats(I1F32, I1F64).int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
