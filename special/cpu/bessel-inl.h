// Bessel and Airy functions: polynomials by pieces where arguments are small, asymptotic forms beyond. Near zeros of
// the oscillating ones the error is small beside the function's amplitude there. Included inside foreach_target.h's
// passes, and by device code (tensor/cuda/one_lane).
#if defined(TESSERA_SPECIAL_CPU_BESSEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_BESSEL_INL_H_
#undef TESSERA_SPECIAL_CPU_BESSEL_INL_H_
#else
#define TESSERA_SPECIAL_CPU_BESSEL_INL_H_
#endif

#include "hwy/highway.h"
#include "special/cpu/pieces-inl.h"
#include "tensor/cpu/math/math_bessel-inl.h"

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
HWY_INLINE V SmallJ(D d, V a) {  // 0 <= a^2 <= 5
  const V z = hn::Mul(a, a);
  if constexpr (kOrder == 0)
    return math::Polynomial(d, z, tables::kJ0Small);
  else
    return hn::Mul(a, math::Polynomial(d, z, tables::kJ1Small));
}
template <int kOrder, class D, class V>
HWY_INLINE V NearJ(D d, V a) {  // 0 <= a < 16
  if (hn::AllTrue(d, hn::Le(a, hn::Set(d, 2.2)))) return SmallJ<kOrder>(d, a);
  if constexpr (kOrder == 0)
    return ByPieces<10>(d, TESSERA_PIECES(kJ0), 0, 1, a);
  else
    return hn::Mul(a, ByPieces<10>(d, TESSERA_PIECES(kJ1), 0, 1, a));
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
  V r = zero;
  if (!hn::AllTrue(d, hn::Or(near, far))) {
    if constexpr (kOrder == 0)
      r = ByPieces<11>(d, TESSERA_PIECES(kY0), 2, 1, x);
    else
      r = ByPieces<13>(d, TESSERA_PIECES(kY1), 2, 1, x);
  }
  if (Some(d, near)) {
    const V limited = hn::Max(zero, hn::Min(two, x)), z = hn::Mul(limited, limited), log = LogOf(d, limited),
            j = SmallJ<kOrder>(d, limited);
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
HWY_NOINLINE V ScaledIOfDouble(D d, V x) {
  const V a = hn::Abs(x);
  if constexpr (kForFloat<D>) {
    if (hn::AllTrue(d, hn::Le(a, hn::Set(d, 1.0)))) {
      const V z = hn::Mul(a, a);
      V r;
      if constexpr (kOrder == 0)
        r = math::Polynomial(d, z, tables::kI0Near);
      else
        r = hn::Mul(x, math::Polynomial(d, z, tables::kI1Near));
      return TimesExp(d, r, hn::Neg(a), hn::Zero(d));
    }
  }
  const V more = hn::Add(a, hn::Set(d, 2.0)), v = hn::Div(hn::Set(d, 2.0), more);
  if constexpr (kForFloat<D>) {  // with 1 / sqrt(more) = sqrt(v / 2), a / more = a v / 2
    const V inverse = hn::Mul(v, hn::Set(d, 0.5)), root = hn::Sqrt(inverse);
    if constexpr (kOrder == 0) return hn::Mul(root, ByPieces<7>(d, TESSERA_PIECES(kI0e), 0, 0.0625, v));
    const V share = hn::IfThenElse(hn::Gt(a, hn::Set(d, 1e18)), hn::Set(d, 1.0), hn::Mul(a, inverse));
    const V r = hn::Mul(hn::Mul(share, root), ByPieces<7>(d, TESSERA_PIECES(kI1e), 0, 0.0625, v));
    return hn::Xor(r, hn::And(x, hn::SignBit(d)));
  }
  const V root = hn::Sqrt(more);
  if constexpr (kOrder == 0) {
    return hn::Div(ByPieces<7>(d, TESSERA_PIECES(kI0e), 0, 0.0625, v), root);
  } else {
    const V share = hn::IfThenElse(hn::Gt(a, hn::Set(d, 1e18)), hn::Set(d, 1.0), hn::Div(a, more));
    const V r = hn::Mul(share, hn::Div(ByPieces<7>(d, TESSERA_PIECES(kI1e), 0, 0.0625, v), root));
    return hn::Xor(r, hn::And(x, hn::SignBit(d)));
  }
}
// By kernels that have the function in float32 for float32 numbers.
template <int kOrder, class D, class V>
HWY_INLINE V ScaledI(D d, V x) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return math::ScaledIOfFloat<kOrder>(d, x);
  else
#endif
    return ScaledIOfDouble<kOrder>(d, x);
}

// Orders 0 and 1 of K(x), and of e^x K(x).
enum KindOfK { kBesselK0, kBesselK1, kScaledK0, kScaledK1 };
// Up to 1 by NIST DLMF 10.31.1, beyond by pieces in 1 / x.
template <KindOfK kKind, class D, class V>
HWY_NOINLINE V BesselK(D d, V x) {
  constexpr int kOrder = kKind == kBesselK0 || kKind == kScaledK0 ? 0 : 1;
  constexpr bool kScaled = kKind == kScaledK0 || kKind == kScaledK1;
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), v = hn::Div(one, x);
  const auto near = hn::Le(x, one);
  V r = zero;
  if (!hn::AllTrue(d, near)) {
    if constexpr (kOrder == 0)
      r = ByPieces<6>(d, TESSERA_PIECES(kK0e), 0, 0.0625, v);
    else
      r = ByPieces<6>(d, TESSERA_PIECES(kK1e), 0, 0.0625, v);
    r = hn::Mul(r, hn::Sqrt(v));
    if constexpr (!kScaled) r = TimesExp(d, r, hn::Neg(x), zero);
  }
  if (!hn::AllFalse(d, near)) {
    const V limited = hn::Max(zero, hn::Min(one, x)), z = hn::Mul(limited, limited), log = LogOf(d, limited);
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
  const V series = ByPieces<5>(d, TESSERA_PIECES(kAiryDecaying), 0, 1.0 / 30, hn::Div(hn::Set(d, 1.0), zeta.hi));
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
  V r = ByPieces<13>(d, TESSERA_PIECES(kAiry), -10, 0.75, x);
  if (!hn::AllFalse(d, decaying)) r = hn::IfThenElse(decaying, AiryDecaying(d, hn::Max(two, x)), r);
  if (!hn::AllFalse(d, oscillating)) r = hn::IfThenElse(oscillating, AiryOscillating(d, hn::Max(ten, hn::Neg(x))), r);
  return r;
}

template <class D, class V>
HWY_NOINLINE V SinByX(D d, V x) {
  V sine;
  if constexpr (kForFloat<D>)
    sine = math::LargeLanes(d, x, math::BriefSin<0>(d, x), math::Fp<float>::kTrigLimit,
                            [](double v) HWY_ATTR { return std::sin(v); });
  else
    sine = math::Sin(d, x);
  const V r = hn::Div(sine, x);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, 1.0), hn::IfThenZeroElse(hn::IsInf(x), r));
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, functor, inputs, what it computes, dtypes): see kernels-inl.h.
// clang-format off
#define TESSERA_BESSEL_OPS(X) \
  X(bessel_j0, BesselJ0, 1, BesselJ<0>, SINGLE_AND_DOUBLE) \
  X(bessel_j1, BesselJ1, 1, BesselJ<1>, SINGLE_AND_DOUBLE) \
  X(bessel_y0, BesselY0, 1, BesselY<0>, SINGLE_AND_DOUBLE) \
  X(bessel_y1, BesselY1, 1, BesselY<1>, SINGLE_AND_DOUBLE) \
  X(i0e, I0e, 1, ScaledI<0>, HALVES_TOO) \
  X(i1e, I1e, 1, ScaledI<1>, HALVES_TOO) \
  X(modified_bessel_k0, BesselK0, 1, BesselK<special::kBesselK0>, SINGLE_AND_DOUBLE) \
  X(modified_bessel_k1, BesselK1, 1, BesselK<special::kBesselK1>, SINGLE_AND_DOUBLE) \
  X(scaled_modified_bessel_k0, ScaledBesselK0, 1, BesselK<special::kScaledK0>, SINGLE_AND_DOUBLE) \
  X(scaled_modified_bessel_k1, ScaledBesselK1, 1, BesselK<special::kScaledK1>, SINGLE_AND_DOUBLE) \
  X(airy_ai, AiryAi, 1, Airy, SINGLE_AND_DOUBLE) \
  X(spherical_bessel_j0, SphericalBesselJ0, 1, SinByX, SINGLE_AND_DOUBLE)
// clang-format on

#endif  // per-target include guard
