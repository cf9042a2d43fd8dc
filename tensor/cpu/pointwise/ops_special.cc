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
#include "tensor/cpu/math/math_trig-inl.h"
#include "tensor/cpu/pointwise/pointwise-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(Erf, 1, 0) X(Erfc, 1, 0) X(Erfinv, 1, 0) X(Logit, 1, 1) X(Lgamma, 1, 0) X(Digamma, 1, 0) X(Sinc, 1, 0) \
  X(I0, 1, 0) X(Entr, 1, 0)
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
TESSERA_FUNCTION1(Erfinv)
TESSERA_FUNCTION1(Lgamma)
TESSERA_FUNCTION1(Digamma)
TESSERA_FUNCTION1(I0)
#undef TESSERA_FUNCTION1
struct Logit {
  template <class D, class V>
  static HWY_INLINE V Call(D d, const KernelParam* p, V x) {
    if (p[0].f == p[0].f) x = hn::Min(Splat(d, 1.0 - p[0].f), hn::Max(Splat(d, p[0]), x));  // nan stays
    return math::Log(d, hn::Div(x, hn::Sub(Splat(d, 1.0), x)));
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

TESSERA_OPS(TESSERA_DEFINE_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {

TESSERA_OPS(TESSERA_CHOOSE)

namespace {
// The Hurwitz zeta function, sum over k >= 0 of (q + k)^-s, for q > 0 and s > 1: the first terms, then the
// Euler-Maclaurin formula (NIST DLMF 25.11.5).
double zeta_positive(double s, double q) {
  static constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                          5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  double sum = 0;
  for (; q < 12; ++q) sum += std::pow(q, -s);
  double term = std::pow(q, -s);
  sum += term * q / (s - 1) + 0.5 * term;
  double factor = s / 2;  // s (s + 1) ... (s + 2j - 2) / (2j)!
  for (int j = 1; j <= 8; ++j) {
    term /= j == 1 ? q : q * q;
    sum += kBernoulli[j - 1] * factor * term;
    factor *= (s + 2 * j - 1) * (s + 2 * j) / ((2.0 * j + 1) * (2 * j + 2));
  }
  return sum;
}
// (-1)^(n+1) n! zeta(n + 1, x). Below 0 the sum has two ends, each a zeta function of a positive argument; the poles
// are infinite.
struct Polygamma {
  template <class T>
  static T call(const KernelParam* p, T value) {
    const double x = static_cast<double>(value), n = p[0].f, s = n + 1;
    const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
    if (!(x <= 0)) return static_cast<T>(x != x ? x : std::isinf(x) ? 0 : sign * std::tgamma(s) * zeta_positive(s, x));
    const double whole = std::floor(x), rest = x - whole;
    if (rest == 0 || std::isinf(x))
      return static_cast<T>(rest == 0 ? std::numeric_limits<double>::infinity()
                                      : std::numeric_limits<double>::quiet_NaN());
    const double mirrored = zeta_positive(s, 1 - rest) - zeta_positive(s, 1 - rest - whole);
    return static_cast<T>(sign * std::tgamma(s) *
                          (zeta_positive(s, rest) + (std::fmod(s, 2) == 0 ? mirrored : -mirrored)));
  }
};
struct I1 {
  template <class T>
  static T call(const KernelParam*, T x) {
    return scalar::i1(x);
  }
};
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
constinit const PointwiseOp polygamma = OpBuilder<1, 1>("polygamma").scalar_floats<Polygamma>().int_to_float();
constinit const PointwiseOp sinc =
    OpBuilder<1>("sinc_cpu").floats(SincF32, SincF64).complexes<SincComplex>().int_to_float();
constinit const PointwiseOp entr = OpBuilder<1>("entr_cpu").floats(EntrF32, EntrF64).int_to_float();
constinit const PointwiseOp i0 = OpBuilder<1>("i0").floats(I0F32, I0F64).int_to_float();
constinit const PointwiseOp i1 = OpBuilder<1>("i1").scalar_floats<I1>().int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
