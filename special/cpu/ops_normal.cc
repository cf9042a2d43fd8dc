// The normal distribution and the scaled error function.
#include <cmath>
#include <limits>

#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_normal.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/pieces-inl.h"

// clang-format off
#define TESSERA_OPS(X) X(Erfcx, 1, 0) X(Ndtr, 1, 0) X(LogNdtr, 1, 0) X(Ndtri, 1, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// e^(a^2) erfc(a) for a >= 0; from 28 on the asymptotic series (NIST DLMF 7.12.1).
template <class D, class V>
HWY_INLINE V ScaledErfcOfAny(D d, Two<V> a) {
  const V edge = hn::Set(d, 28.0);
  const auto far = hn::Gt(a.hi, edge);
  V r = math::Rounded(math::ScaledErfc(d, Two<V>{hn::Min(edge, a.hi), hn::IfThenZeroElse(far, a.lo)}));
  if (HWY_UNLIKELY(!hn::AllFalse(d, far))) {
    constexpr double kC[] = {1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0};
    const V t = hn::Div(hn::Set(d, 1.0), a.hi), h = hn::Mul(t, hn::Mul(t, hn::Set(d, 0.5)));
    r = hn::IfThenElse(far, hn::Mul(hn::Mul(t, hn::Set(d, 0.56418958354775629)), math::Polynomial(d, h, kC)), r);
  }
  return r;
}
template <class D, class V>
HWY_NOINLINE V ScaledErrorFunction(D d, V x) {
  const V a = hn::Abs(x), zero = hn::Zero(d), r = ScaledErfcOfAny(d, Two<V>{a, zero});
  const auto negative = hn::Lt(x, zero);
  if (hn::AllFalse(d, negative)) return r;
  const V limited = hn::Min(hn::Set(d, 28.0), a);  // infinite from 27 on
  const Two<V> square = math::Product(d, limited, limited);
  return hn::IfThenElse(negative, hn::Sub(TimesExp(d, hn::Set(d, 2.0), square.hi, square.lo), r), r);
}

template <class D, class V>
HWY_NOINLINE V NormalCdf(D d, V x) {
  const V tail = math::NormalTail(d, x);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0), tail));
}

// Up to 0 log(erfcx(|x| / sqrt 2) / 2) - x^2 / 2, both terms negative.
template <class D, class V>
HWY_NOINLINE V LogNormalCdf(D d, V x) {
  const V zero = hn::Zero(d), half = hn::Set(d, 0.5);
  const auto positive = hn::Gt(x, zero);
  V r = zero;
  if (!hn::AllTrue(d, positive)) {
    const V a = hn::Max(zero, hn::Neg(x));
    const Two<V> z = math::Product(d, a, hn::Set(d, 0.70710678118654757));
    const V scaled = ScaledErfcOfAny(d, z);
    r = hn::NegMulAdd(a, hn::Mul(a, half), math::Log(d, hn::Mul(half, scaled)));
  }
  if (!hn::AllFalse(d, positive)) {
    const V y = math::Log1p(d, hn::Neg(math::NormalTail(d, hn::Max(zero, x))));
    r = hn::IfThenElse(positive, y, r);
  }
  return hn::IfThenElse(hn::IsNaN(x), x, r);
}

// The quantile of probabilities so small that 4 p (1 - p) is beyond the pieces of erfinv: Newton's method on the
// logarithm, from the first terms of its asymptotic expansion.
template <class D, class V>
HWY_NOINLINE V FarQuantile(D d, V p) {
  const V log = math::Log(d, p), root = hn::Sqrt(hn::Mul(log, hn::Set(d, -2.0)));
  V x = hn::Sub(hn::Div(hn::Add(math::Log(d, root), hn::Set(d, 0.91893853320467274)), root), root);
  for (int i = 0; i < 3; ++i) {
    const V a = hn::Neg(x), half = hn::Set(d, 0.5);
    const V scaled = ScaledErfcOfAny(d, math::Product(d, a, hn::Set(d, 0.70710678118654757)));
    const V value = hn::NegMulAdd(a, hn::Mul(a, half), math::Log(d, hn::Mul(half, scaled)));
    // The slope of log ndtr is sqrt(2 / pi) / erfcx.
    x = hn::NegMulAdd(hn::Mul(hn::Sub(value, log), scaled), hn::Set(d, 1.2533141373155003), x);
  }
  return x;
}
// sqrt(2) erfinv(2 p - 1), whose pieces go by -log(1 - (2 p - 1)^2) = -log(4 p (1 - p)).
template <class D, class V>
HWY_NOINLINE V Quantile(D d, V p) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), least = hn::Set(d, 1.2e-16);
  const auto inside = hn::And(hn::Gt(p, zero), hn::Lt(p, one)), far = hn::And(inside, hn::Lt(p, least));
  const V limited = hn::IfThenElse(hn::And(inside, hn::Not(far)), p, hn::Set(d, 0.5));
  // The logarithm needs no more digits: the function grows as its square root.
  const V y = hn::Sub(hn::Add(limited, limited), one),
          w = hn::Neg(math::Log(d, hn::Mul(hn::Mul(limited, hn::Set(d, 4.0)), hn::Sub(one, limited))));
  hn::Vec<hn::RebindToUnsigned<D>> piece;
  const V t = math::ErfinvPiece(d, hn::Max(w, zero), piece).hi;
  const auto& rows = tables::kErfinv64;
  constexpr size_t kRows = sizeof(rows) / sizeof(rows[0]);
  V r = math::Entry(d, rows[kRows - 1], piece);  // value and slope take two rows each
  for (size_t row = kRows - 2; row >= 4; --row) r = hn::MulAdd(r, t, math::Entry(d, rows[row], piece));
  r = hn::MulAdd(hn::MulAdd(r, t, math::Entry(d, rows[2], piece)), t, math::Entry(d, rows[0], piece));
  r = hn::Mul(hn::Mul(y, hn::Set(d, 1.4142135623730951)), r);
  if (HWY_UNLIKELY(!hn::AllFalse(d, far))) r = hn::IfThenElse(far, FarQuantile(d, hn::Min(least, p)), r);
  const V outside =
      hn::IfThenElse(hn::Eq(p, zero), hn::Neg(hn::Inf(d)), hn::IfThenElse(hn::Eq(p, one), hn::Inf(d), hn::NaN(d)));
  return hn::IfThenElse(inside, r, outside);
}

}  // namespace special

TESSERA_CORE(Erfcx, ScaledErrorFunction)
TESSERA_CORE(Ndtr, NormalCdf)
TESSERA_CORE(LogNdtr, LogNormalCdf)
TESSERA_CORE(Ndtri, Quantile)

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

constinit const PointwiseOp erfcx =
    OpBuilder<1>("erfcx_cpu").with(DType::kFloat32, ErfcxF32).with(DType::kFloat64, ErfcxF64).int_to_float();
constinit const PointwiseOp log_ndtr =
    OpBuilder<1>("log_ndtr_cpu").with(DType::kFloat32, LogNdtrF32).with(DType::kFloat64, LogNdtrF64).int_to_float();
constinit const PointwiseOp ndtri =
    OpBuilder<1>("ndtri_cpu").with(DType::kFloat32, NdtriF32).with(DType::kFloat64, NdtriF64).int_to_float();
constinit const PointwiseOp ndtr = OpBuilder<1>("ndtr_cpu").floats(NdtrF32, NdtrF64).int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
