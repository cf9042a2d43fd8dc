// Bessel and Airy functions: polynomials by pieces where arguments are small, asymptotic forms beyond. Near zeros of
// the oscillating ones the error is small beside the function's amplitude there.
#include <limits>

#include "special/cpu/ops.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_bessel.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/pieces-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(BesselJ0, 1, 0) X(BesselJ1, 1, 0) X(BesselY0, 1, 0) X(BesselY1, 1, 0) X(I0e, 1, 0) X(I1e, 1, 0) \
  X(BesselK0, 1, 0) X(BesselK1, 1, 0) X(ScaledBesselK0, 1, 0) X(ScaledBesselK1, 1, 0) \
  X(AiryAi, 1, 0) X(SphericalBesselJ0, 1, 0)
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// J, or Y if kSecond, for x >= 16 by Hankel's expansion (NIST DLMF 10.17.3 and 10.17.4); nan for infinity, as PyTorch.
template <int kOrder, bool kSecond, class D, class V>
HWY_NOINLINE V Hankel(D d, V x) {
  const V t = hn::Div(hn::Set(d, 16.0), x), z = hn::Mul(t, t);
  V p, q;
  if constexpr (kOrder == 0)
    p = math::Polynomial(d, z, tables::kHankelP0), q = math::Polynomial(d, z, tables::kHankelQ0);
  else
    p = math::Polynomial(d, z, tables::kHankelP1), q = math::Polynomial(d, z, tables::kHankelQ1);
  q = hn::Mul(q, hn::Mul(t, hn::Set(d, 0.0625)));
  Two<V> s, c;
  SinAndCosOfAny(d, x, s, c);
  const Two<V> plus = math::Sum(s.hi, c.hi), minus = math::Sum(s.hi, hn::Neg(c.hi));
  const V sum = hn::Add(plus.hi, hn::Add(plus.lo, hn::Add(s.lo, c.lo))),
          difference = hn::Add(minus.hi, hn::Add(minus.lo, hn::Sub(s.lo, c.lo)));
  V r;  // times sqrt 2
  if constexpr (kOrder == 0)
    r = kSecond ? hn::MulAdd(p, difference, hn::Mul(q, sum)) : hn::MulSub(p, sum, hn::Mul(q, difference));
  else
    r = kSecond ? hn::MulSub(q, difference, hn::Mul(p, sum)) : hn::MulAdd(p, difference, hn::Mul(q, sum));
  return hn::Mul(r, hn::Div(hn::Set(d, 0.56418958354775629), hn::Sqrt(x)));  // 1 / sqrt(pi x)
}

template <int kOrder, class D, class V>
HWY_INLINE V NearJ(D d, V a) {  // 0 <= a < 16
  if constexpr (kOrder == 0)
    return ByPieces(d, tables::kJ0, 0, 1, a);
  else
    return hn::Mul(a, ByPieces(d, tables::kJ1, 0, 1, a));
}
template <int kOrder, class D, class V>
HWY_NOINLINE V BesselJ(D d, V x) {
  const V a = hn::Abs(x), edge = hn::Set(d, 16.0);
  const auto near = hn::Lt(a, edge);
  V r = hn::Zero(d);
  if (Some(d, near)) r = NearJ<kOrder>(d, a);
  if (!hn::AllTrue(d, near)) r = hn::IfThenElse(near, r, Hankel<kOrder, false>(d, hn::Max(edge, a)));
  return kOrder == 1 ? hn::Xor(r, hn::And(x, hn::SignBit(d))) : r;
}

template <int kOrder, class D, class V>
HWY_NOINLINE V BesselY(D d, V x) {
  const V two = hn::Set(d, 2.0), edge = hn::Set(d, 18.0), zero = hn::Zero(d),
          two_by_pi = hn::Set(d, 0.63661977236758134);
  const auto near = hn::Lt(x, two), far = hn::Not(hn::Lt(x, edge));
  V r;
  if constexpr (kOrder == 0)
    r = ByPieces(d, tables::kY0, 2, 1, x);
  else
    r = ByPieces(d, tables::kY1, 2, 1, x);
  if (Some(d, near)) {
    const V limited = hn::Min(two, x), z = hn::Mul(limited, limited), log = math::Log(d, limited),
            j = NearJ<kOrder>(d, limited);
    V y;
    if constexpr (kOrder == 0)
      y = hn::MulAdd(hn::Mul(two_by_pi, log), j, math::Polynomial(d, z, tables::kY0Near));
    else
      y = hn::NegMulAdd(two_by_pi, hn::NegMulAdd(log, j, hn::Div(hn::Set(d, 1.0), limited)),
                        hn::Mul(limited, math::Polynomial(d, z, tables::kY1Near)));
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(hn::Inf(d)), hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y));
    r = hn::IfThenElse(near, y, r);
  }
  if (!hn::AllFalse(d, far)) r = hn::IfThenElse(far, Hankel<kOrder, true>(d, hn::Max(edge, x)), r);
  return r;
}

// e^-|x| I(x), by pieces in 2 / (|x| + 2).
template <int kOrder, class D, class V>
HWY_NOINLINE V ScaledI(D d, V x) {
  const V a = hn::Abs(x), more = hn::Add(a, hn::Set(d, 2.0)), v = hn::Div(hn::Set(d, 2.0), more), root = hn::Sqrt(more);
  if constexpr (kOrder == 0) {
    return hn::Div(ByPieces(d, tables::kI0e, 0, 0.0625, v), root);
  } else {
    const V share = hn::IfThenElse(hn::Gt(a, hn::Set(d, 1e18)), hn::Set(d, 1.0), hn::Div(a, more));
    const V r = hn::Mul(share, hn::Div(ByPieces(d, tables::kI1e, 0, 0.0625, v), root));
    return hn::Xor(r, hn::And(x, hn::SignBit(d)));
  }
}

// K(x), or e^x K(x). Up to 1 by NIST DLMF 10.31.1, beyond by pieces in 1 / x.
template <int kOrder, bool kScaled, class D, class V>
HWY_NOINLINE V BesselK(D d, V x) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), v = hn::Div(one, x);
  const auto near = hn::Le(x, one);
  V r = zero;
  if (!hn::AllTrue(d, near)) {
    if constexpr (kOrder == 0)
      r = ByPieces(d, tables::kK0e, 0, 0.0625, v);
    else
      r = ByPieces(d, tables::kK1e, 0, 0.0625, v);
    r = hn::Mul(r, hn::Sqrt(v));
    if constexpr (!kScaled) r = TimesExp(d, r, hn::Neg(x), zero);
  }
  if (!hn::AllFalse(d, near)) {
    const V limited = hn::Max(zero, hn::Min(one, x)), z = hn::Mul(limited, limited), log = math::Log(d, limited);
    V y;
    if constexpr (kOrder == 0)
      y = hn::NegMulAdd(log, math::Polynomial(d, z, tables::kI0Near), math::Polynomial(d, z, tables::kK0Near));
    else
      y = hn::MulAdd(limited,
                     hn::MulAdd(log, math::Polynomial(d, z, tables::kI1Near), math::Polynomial(d, z, tables::kK1Near)),
                     v);
    if constexpr (kScaled) y = TimesExp(d, y, limited, zero);
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Inf(d), hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y));
    r = hn::IfThenElse(near, y, r);
  }
  return r;
}

// 2/3 a^(3/2), and the square root of a.
template <class D, class V>
HWY_INLINE Two<V> AiryZeta(D d, V a, V& root) {
  const Two<V> s = math::Root(d, Two<V>{a, hn::Zero(d)});
  root = s.hi;
  return math::Product(d, math::Product(d, Two<V>{a, hn::Zero(d)}, s),
                       Two<V>{hn::Set(d, 0x1.5555555555555p-1), hn::Set(d, 0x1.5555555555555p-55)});
}
template <class D, class V>
HWY_NOINLINE V AiryDecaying(D d, V x) {  // x >= 2
  V root;
  const Two<V> zeta = AiryZeta(d, hn::Min(hn::Set(d, 120.0), x), root);  // 0 from 106 on
  const V series = ByPieces(d, tables::kAiryDecaying, 0, 1.0 / 30, hn::Div(hn::Set(d, 1.0), zeta.hi));
  const V factor = hn::Div(hn::Set(d, 0.28209479177387814), hn::Sqrt(root));  // 1 / (2 sqrt(pi) x^(1/4))
  return TimesExp(d, hn::Mul(series, factor), hn::Neg(zeta.hi), hn::Neg(zeta.lo));
}
template <class D, class V>
HWY_NOINLINE V AiryOscillating(D d, V a) {  // Ai(-a), a >= 10 (NIST DLMF 9.7.9)
  V root;
  const Two<V> zeta = AiryZeta(d, a, root);
  const V one = hn::Set(d, 1.0), t = hn::Div(hn::Set(d, 21.0), zeta.hi), z = hn::Mul(t, t);
  const V p = math::Polynomial(d, z, tables::kAiryP),
          q = hn::Mul(math::Polynomial(d, z, tables::kAiryQ), hn::Mul(t, hn::Set(d, 1.0 / 21)));
  Two<V> s, c;
  SinAndCosOfAny(d, zeta.hi, s, c);
  const V low = hn::Max(hn::Neg(one), hn::Min(one, zeta.lo));
  const V sine = hn::Add(s.hi, hn::MulAdd(low, math::Rounded(c), s.lo)),
          cosine = hn::Add(c.hi, hn::NegMulAdd(low, math::Rounded(s), c.lo));
  const V r = hn::MulAdd(p, hn::Add(cosine, sine), hn::Mul(q, hn::Sub(sine, cosine)));
  return hn::Mul(r, hn::Div(hn::Set(d, 0.39894228040143268), hn::Sqrt(root)));  // 1 / sqrt(2 pi) a^(-1/4)
}
template <class D, class V>
HWY_NOINLINE V Airy(D d, V x) {
  const V two = hn::Set(d, 2.0), ten = hn::Set(d, 10.0);
  const auto decaying = hn::Ge(x, two), oscillating = hn::Lt(x, hn::Neg(ten));
  V r = ByPieces(d, tables::kAiry, -10, 0.75, x);
  if (!hn::AllFalse(d, decaying)) r = hn::IfThenElse(decaying, AiryDecaying(d, hn::Max(two, x)), r);
  if (!hn::AllFalse(d, oscillating)) r = hn::IfThenElse(oscillating, AiryOscillating(d, hn::Max(ten, hn::Neg(x))), r);
  return r;
}

template <class D, class V>
HWY_NOINLINE V SinByX(D d, V x) {
  const V r = hn::Div(math::Sin(d, x), x);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, 1.0), hn::IfThenZeroElse(hn::IsInf(x), r));
}

}  // namespace special

TESSERA_CORE(BesselJ0, BesselJ<0>)
TESSERA_CORE(BesselJ1, BesselJ<1>)
TESSERA_CORE(BesselY0, BesselY<0>)
TESSERA_CORE(BesselY1, BesselY<1>)
TESSERA_CORE(I0e, ScaledI<0>)
TESSERA_CORE(I1e, ScaledI<1>)
#define TESSERA_K(kOrder, kScaled) BesselK<kOrder, kScaled>
TESSERA_CORE(BesselK0, TESSERA_K(0, false))
TESSERA_CORE(BesselK1, TESSERA_K(1, false))
TESSERA_CORE(ScaledBesselK0, TESSERA_K(0, true))
TESSERA_CORE(ScaledBesselK1, TESSERA_K(1, true))
#undef TESSERA_K
TESSERA_CORE(AiryAi, Airy)
TESSERA_CORE(SphericalBesselJ0, SinByX)

TESSERA_OPS(TESSERA_DEFINE_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {
TESSERA_OPS(TESSERA_CHOOSE)

double bessel_j0(double x) {
  void* const out[] = {&x};
  const void* const in[] = {&x};
  BesselJ0F64(1, out, in, nullptr);
  return x;
}
}  // namespace cpu

namespace pw {
using namespace cpu;

// float32 and float64 alone; those with half types are said to have them.
constinit const PointwiseOp bessel_j0 =
    OpBuilder<1>("bessel_j0_cpu").with(DType::kFloat32, BesselJ0F32).with(DType::kFloat64, BesselJ0F64).int_to_float();
constinit const PointwiseOp bessel_j1 =
    OpBuilder<1>("bessel_j1_cpu").with(DType::kFloat32, BesselJ1F32).with(DType::kFloat64, BesselJ1F64).int_to_float();
constinit const PointwiseOp bessel_y0 =
    OpBuilder<1>("bessel_y0_cpu").with(DType::kFloat32, BesselY0F32).with(DType::kFloat64, BesselY0F64).int_to_float();
constinit const PointwiseOp bessel_y1 =
    OpBuilder<1>("bessel_y1_cpu").with(DType::kFloat32, BesselY1F32).with(DType::kFloat64, BesselY1F64).int_to_float();
constinit const PointwiseOp modified_bessel_k0 = OpBuilder<1>("modified_bessel_k0_cpu")
                                                     .with(DType::kFloat32, BesselK0F32)
                                                     .with(DType::kFloat64, BesselK0F64)
                                                     .int_to_float();
constinit const PointwiseOp modified_bessel_k1 = OpBuilder<1>("modified_bessel_k1_cpu")
                                                     .with(DType::kFloat32, BesselK1F32)
                                                     .with(DType::kFloat64, BesselK1F64)
                                                     .int_to_float();
constinit const PointwiseOp scaled_modified_bessel_k0 = OpBuilder<1>("scaled_modified_bessel_k0_cpu")
                                                            .with(DType::kFloat32, ScaledBesselK0F32)
                                                            .with(DType::kFloat64, ScaledBesselK0F64)
                                                            .int_to_float();
constinit const PointwiseOp scaled_modified_bessel_k1 = OpBuilder<1>("scaled_modified_bessel_k1_cpu")
                                                            .with(DType::kFloat32, ScaledBesselK1F32)
                                                            .with(DType::kFloat64, ScaledBesselK1F64)
                                                            .int_to_float();
constinit const PointwiseOp airy_ai =
    OpBuilder<1>("airy_ai_cpu").with(DType::kFloat32, AiryAiF32).with(DType::kFloat64, AiryAiF64).int_to_float();
constinit const PointwiseOp spherical_bessel_j0 = OpBuilder<1>("spherical_bessel_j0_cpu")
                                                      .with(DType::kFloat32, SphericalBesselJ0F32)
                                                      .with(DType::kFloat64, SphericalBesselJ0F64)
                                                      .int_to_float();
constinit const PointwiseOp i0e = OpBuilder<1>("i0e").floats(I0eF32, I0eF64).int_to_float();
constinit const PointwiseOp i1e = OpBuilder<1>("i1e").floats(I1eF32, I1eF64).int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
