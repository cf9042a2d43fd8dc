// Circular and hyperbolic functions and their inverses, gamma functions and their like on vectors, float32 and float64.
// Included inside foreach_target.h's passes.
#if defined(TESSERA_TENSOR_CPU_MATH_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_TRIG_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_TRIG_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_TRIG_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "tensor/cpu/math/math_error-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {

// 2^(n - 1) (p +- 4^-n / p) for e^|x| = 2^n p.
template <bool kCosh, class D, class V>
TESSERA_MATH_PART V HyperbolicTwo(D d, V x) {
  V n;
  const Two<V> p = ExpTwo<false>(d, hn::Min(hn::Set(d, Fp<double>::kExpHigh + 1), hn::Abs(x)), x, n),
               quotient = Quotient(d, Two<V>{hn::Set(d, 1.0), hn::Zero(d)}, p);
  const V scale = PowerOf2(d, hn::Mul(hn::Min(n, hn::Set(d, 64.0)), hn::Set(d, -2.0)));
  const Two<V> q = {hn::Mul(quotient.hi, scale), hn::Mul(quotient.lo, scale)},
               sum = FastSum(p.hi, kCosh ? q.hi : hn::Neg(q.hi));
  const V low = hn::Add(sum.lo, kCosh ? hn::Add(p.lo, q.lo) : hn::Sub(p.lo, q.lo));
  return ScaleByPower(d, hn::Add(sum.hi, low), hn::Sub(n, hn::Set(d, 1.0)));
}
// Near 0 an odd polynomial.
template <class D, class V>
TESSERA_MATH_PART V BriefSinh(D d, V a) {
  constexpr double kC[] = {0.1666666664684213432, 0.008333339675917060912, 0.0001983810196868388931,
                           2.806280258227694618e-6};  // of (sinh x - x) / x^3 to 1, to 1.7e-10 of sinh x
  V p;
  const V s = BriefExp(d, a, p), e = hn::MulAdd(s, p, s), z = hn::Mul(a, a);
  const V near = hn::MulAdd(hn::Mul(a, z), Polynomial(d, z, kC), a),
          far = hn::Mul(hn::Set(d, 0.5), hn::Sub(e, Inverse(d, e)));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0)), near, far);
}
template <class D, class V>
HWY_INLINE V Sinh(D d, V x) {
  const V a = hn::Abs(x);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::CopySign(InDouble(d, TESSERA_IN_DOUBLE(BriefSinh), hn::Min(hn::Set(d, 90.0f), a)), x);
  } else {
    const V z = hn::Mul(x, x);
    constexpr double kC[] = {0.1666666666666666667,    0.008333333333333333554,
                             0.0001984126984126716339, 2.755731923587455221e-6,
                             2.505208452921717549e-8,  1.608110522103777397e-10};  // to 0.3, 3e-23
    const V near = hn::MulAdd(hn::Mul(a, z), Polynomial(d, z, kC), a);
    return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.3)), near, HyperbolicTwo<false>(d, x)), x);
  }
}
template <class D, class V>
HWY_INLINE V Cosh(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return HyperbolicTwo<true>(d, x);
  } else {
    return InDouble(
        d,
        [](auto dd, auto v) HWY_ATTR {
          hn::Vec<decltype(dd)> p;
          const auto s = BriefExp(dd, v, p), half = hn::Set(dd, 0.5), e = hn::MulAdd(s, p, s);
          return hn::MulAdd(e, half, hn::Mul(half, Inverse(dd, e)));
        },
        hn::Min(hn::Set(d, 90.0f), hn::Abs(x)));
  }
}

// y with log(1 + y) the inverse hyperbolic functions' logarithms: asinh |x|, acosh x, 2 atanh |x|.
template <class D, class V>
TESSERA_MATH_PART V BriefAsinh(D d, V a) {  // y = a + a^2 / (1 + sqrt(1 + a^2))
  const V one = hn::Set(d, 1.0), square = hn::Mul(a, a);
  return BriefLog1p(d, hn::MulAdd(square, Inverse(d, hn::Add(one, hn::Sqrt(hn::Add(one, square)))), a));
}
template <class D, class V>
TESSERA_MATH_PART V BriefAcosh(D d, V x) {  // y = t + sqrt(t (t + 2)), t = x - 1
  const V t = hn::Sub(x, hn::Set(d, 1.0));
  return BriefLog1p(d, hn::Add(t, hn::Sqrt(hn::Mul(t, hn::Add(t, hn::Set(d, 2.0))))));
}
template <class D, class V>
TESSERA_MATH_PART V BriefAtanh(D d, V a) {
  return hn::Mul(hn::Set(d, 0.5), BriefLog1p(d, hn::Mul(hn::Add(a, a), Inverse(d, hn::Sub(hn::Set(d, 1.0), a)))));
}
// log of 2 x for large x, without overflow.
template <class D, class V>
HWY_INLINE V LogOfDouble(D d, V x) {
  return JoinLog(d, SplitLog<true, false>(d, x, hn::Zero(d), hn::Set(d, 1.0))).hi;
}
template <class D, class V>
HWY_INLINE V Asinh(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = hn::Abs(x);
  V r;
  if constexpr (sizeof(T) == 4) {
    r = InDouble(d, TESSERA_IN_DOUBLE(BriefAsinh), a);
  } else {
    const V one = hn::Set(d, 1.0), far = hn::Set(d, 1e9), b = hn::Min(a, far);
    const Two<V> square = Product(d, b, b), s = Sum(one, square.hi),
                 root = Root(d, Two<V>{s.hi, hn::Add(s.lo, square.lo)});
    const Two<V> below = FastSum(root.hi, one),
                 part = Quotient(d, square, Two<V>{below.hi, hn::Add(below.lo, root.lo)}), y = FastSum(b, part.hi);
    r = Log1pTwo(d, Two<V>{y.hi, hn::Add(y.lo, part.lo)}).hi;
    r = hn::IfThenElse(hn::Ge(a, far), LogOfDouble(d, a), r);
  }
  const auto plain = hn::Or(hn::Lt(a, hn::Set(d, static_cast<T>(1e-10))), hn::Not(hn::Lt(a, hn::Inf(d))));  // nan too
  return hn::IfThenElse(plain, x, hn::CopySign(r, x));
}
template <class D, class V>
HWY_INLINE V Acosh(D d, V x) {
  using T = hn::TFromD<D>;
  V r;
  if constexpr (sizeof(T) == 4) {
    r = InDouble(d, TESSERA_IN_DOUBLE(BriefAcosh), x);
  } else {
    const V far = hn::Set(d, 1e9), t = hn::Sub(hn::Min(x, far), hn::Set(d, 1.0));
    const Two<V> u = Sum(t, hn::Set(d, 2.0)), product = Product(d, Two<V>{t, hn::Zero(d)}, u), root = Root(d, product),
                 y = Sum(root.hi, t);
    r = Log1pTwo(d, Two<V>{y.hi, hn::Add(y.lo, root.lo)}).hi;
    r = hn::IfThenElse(hn::Ge(x, far), LogOfDouble(d, x), r);
  }
  r = hn::IfThenElse(hn::Lt(x, hn::Inf(d)), r, x);  // nan too
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, T{1})), hn::NaN(d), r);
}
template <class D, class V>
HWY_INLINE V Atanh(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = hn::Abs(x), one = hn::Set(d, T{1});
  V r;
  if constexpr (sizeof(T) == 4) {
    r = InDouble(d, TESSERA_IN_DOUBLE(BriefAtanh), a);
  } else {
    const Two<V> below = FastSum(one, hn::Neg(a));
    r = hn::Mul(hn::Set(d, 0.5), Log1pTwo(d, Quotient(d, Two<V>{hn::Add(a, a), hn::Zero(d)}, below)).hi);
  }
  r = hn::IfThenElse(hn::Eq(a, one), hn::Inf(d), hn::IfThenElse(hn::Lt(a, one), r, hn::NaN(d)));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, static_cast<T>(1e-10))), x, hn::CopySign(r, x));
}

// Lanes of `result` that the mask has are replaced by f(x).
template <class D, class M, class V, class F>
HWY_INLINE V SomeLanes(D d, M some, V x, V result, F f) {
  using T = hn::TFromD<D>;
  if (HWY_LIKELY(hn::AllFalse(d, some))) return result;
  HWY_ALIGN T in[hn::MaxLanes(d)];
  HWY_ALIGN T out[hn::MaxLanes(d)];
  uint8_t bits[8] = {};
  hn::Store(x, d, in);
  hn::Store(result, d, out);
  hn::StoreMaskBits(d, some, bits);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (bits[i / 8] >> i % 8 & 1) out[i] = f(in[i]);
  }
  return hn::Load(d, out);
}
// Those with |x| not below the limit.
template <class D, class V, class F>
HWY_INLINE V LargeLanes(D d, V x, V result, double limit, F f) {
  return SomeLanes(d, hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, static_cast<hn::TFromD<D>>(limit)))), x, result, f);
}

// sin(x + kQuarterTurns pi / 2) for float32 results, |x| < kTrigLimit: x = n pi + r, |r| <= pi / 2.
template <int kQuarterTurns, class D, class V>
TESSERA_MATH_PART V BriefSin(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, 6755399441055744.0), inverse = hn::Set(d, 0.31830988618379067154), half = hn::Set(d, 0.5);
  const V shifted = kQuarterTurns == 0 ? hn::MulAdd(x, inverse, magic) : hn::Add(hn::MulAdd(x, inverse, half), magic);
  const V n = kQuarterTurns == 0 ? hn::Sub(shifted, magic) : hn::Sub(hn::Sub(shifted, magic), half);
#if HWY_TARGET == HWY_SSE4  // parts of pi whose products with n are exact
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.0b4611a600000p-33), hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54400000p+1), x));
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.3198a2e037073p-68), r);
#else
  const V r =
      hn::NegMulAdd(n, hn::Set(d, 0x1.1a62633145c07p-53), hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54442d18p+1), x));
#endif
  constexpr double kC[] = {1,
                           -0.166666666638784659,
                           0.008333332768305048953,
                           -0.0001984108645250619441,
                           2.753645532390913928e-6,
                           -2.407999973210463901e-8};  // of sin r / r, to 3e-11
  const V sign = hn::BitCast(d, hn::ShiftLeft<63>(hn::BitCast(du, shifted)));
  return hn::Mul(hn::Xor(r, sign), Polynomial(d, hn::Mul(r, r), kC));
}
// tan x for float32 results: x = n pi / 2 + r, |r| <= pi / 4.
template <class D, class V>
TESSERA_MATH_PART V BriefTan(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V shifted = ShiftedSteps(d, x, 0.636619772367581343076), n = Unshifted(d, shifted);
#if HWY_TARGET == HWY_SSE4
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.0b4611a600000p-34), hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54400000p+0), x));
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.3198a2e037073p-69), r);
#else
  const V r =
      hn::NegMulAdd(n, hn::Set(d, 0x1.1a62633145c07p-54), hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54442d18p+0), x));
#endif
  constexpr double kS[] = {1, -0.1666666666384404946, 0.008333331870341348483, -0.0001984008437642269811,
                           2.72496200800748329e-6};  // of sin r / r
  constexpr double kC[] = {1,
                           -0.5,
                           0.04166666666431182336,
                           -0.001388888766837066322,
                           0.00002480059840835011648,
                           -2.730070403808623762e-7};  // of cos r
  const V z = hn::Mul(r, r), sine = hn::Mul(r, Polynomial(d, z, kS)), cosine = Polynomial(d, z, kC);
  const auto odd = hn::RebindMask(d, hn::TestBit(hn::BitCast(du, shifted), hn::Set(du, uint64_t{1})));
  return hn::Mul(hn::IfThenElse(odd, hn::Neg(cosine), sine), Inverse(d, hn::IfThenElse(odd, sine, cosine)));
}

#if HWY_TARGET == HWY_AVX3
// sin(x + kQuarterTurns pi / 2), |x| < kTrigLimit: x = n pi / 16 + r, |r| <= pi / 32, by s + c r with s = sin(n pi /
// 16) and c its cosine from a table.
template <int kQuarterTurns>
HWY_INLINE hn::Vec<Wide> SinByTable(Wide d, hn::Vec<Wide> x) {
  using V = hn::Vec<Wide>;
  const V magic = hn::Set(d, static_cast<float>(Fp<float>::kMagic)),
          shifted = hn::MulAdd(x, hn::Set(d, 5.09295817f), magic), n = hn::Sub(shifted, magic);
  auto step = hn::BitCast(WideBits(), shifted);
  if constexpr (kQuarterTurns != 0) step = hn::Add(step, hn::Set(WideBits(), 8u * kQuarterTurns));
  const V middle = hn::Set(d, -5.46392354e-09f), near = hn::NegMulAdd(n, hn::Set(d, 0.196349546f), x),
          w = hn::Mul(n, middle), r = hn::Sub(near, w);
  const V low =
      hn::Sub(hn::Sub(hn::Sub(near, r), w),
              hn::MulAdd(n, hn::Set(d, -2.14390564e-16f), hn::MulSub(n, middle, w)));  // what r has been rounded by
  const V s = Column(tables::kSin[0], step), c = Column(tables::kSin[1], step), z = hn::Mul(r, r);
  const V v = hn::MulAdd(c, r, s), lost = hn::MulAdd(c, r, hn::Sub(s, v));
  const V odd = hn::MulAdd(hn::Mul(r, z), hn::MulAdd(z, hn::Set(d, 0.00833333f), hn::Set(d, -0.16666667f)), low);
  const V even = hn::Mul(z, hn::MulAdd(z, hn::Set(d, 0.041657f), hn::Set(d, -0.5f)));
  const V tables_rest = hn::MulAdd(Column(tables::kSin[3], step), r, Column(tables::kSin[2], step));
  const V rest = hn::MulAdd(s, even, hn::MulAdd(c, odd, hn::Add(lost, tables_rest)));
  if constexpr (kQuarterTurns != 0) return hn::Add(v, rest);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Add(v, rest));  // -0
}
#endif

// Double, |x| < kTrigLimit: of the same step s + c r and c - s r.
template <class D, class V>
HWY_INLINE void SinAndCosTwo(D d, V x, Two<V>& sine, Two<V>& cosine) {
  const hn::RebindToUnsigned<D> du;
  V shifted, odd, even;
  const Two<V> r = SixteenthsOfPi(d, x, shifted);
  SinAndCosParts(d, r, odd, even);
  const auto step = hn::BitCast(du, shifted);
  const V s = Entry(d, tables::kSin64[0], step), s_low = Entry(d, tables::kSin64[1], step),
          c = Entry(d, tables::kSin64[2], step), c_low = Entry(d, tables::kSin64[3], step);
  const Two<V> p = Product(d, c, r.hi), q = Product(d, s, r.hi), a = FastSum(s, p.hi), b = FastSum(c, hn::Neg(q.hi));
  const V sine_rest = hn::MulAdd(s, even, hn::MulAdd(c, odd, hn::Add(p.lo, hn::MulAdd(c_low, r.hi, s_low))));
  const V cosine_rest = hn::MulAdd(c, even, hn::NegMulAdd(s, odd, hn::Sub(hn::NegMulAdd(s_low, r.hi, c_low), q.lo)));
  const auto sign = hn::And(hn::BitCast(d, hn::ShiftLeft<59>(step)), hn::SignBit(d));
  sine = {hn::Xor(a.hi, sign), hn::Xor(hn::Add(a.lo, sine_rest), sign)};
  cosine = {hn::Xor(b.hi, sign), hn::Xor(hn::Add(b.lo, cosine_rest), sign)};
}
template <class D, class V>
HWY_INLINE void SinAndCos(D d, V x, V& sine, V& cosine) {
  Two<V> s, c;
  SinAndCosTwo(d, x, s, c);
  sine = Rounded(s), cosine = Rounded(c);
}

// sin(x + kQuarterTurns pi / 2)
template <int kQuarterTurns, class D, class V>
HWY_INLINE V SinShifted(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4 && kFullVector<D>) return SinByTable<kQuarterTurns>(d, x);
#endif
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return InDouble(
        d, [](auto dd, auto v) HWY_ATTR { return BriefSin<kQuarterTurns>(dd, v); }, x);
  } else {
    const hn::RebindToUnsigned<D> du;
    V shifted, odd, even;
    const Two<V> r = SixteenthsOfPi(d, x, shifted);
    SinAndCosParts(d, r, odd, even);
    const V result = Rounded(
        SinOfStep(d, hn::Add(hn::BitCast(du, shifted), hn::Set(du, uint64_t{8 * kQuarterTurns})), r, odd, even));
    return kQuarterTurns == 0 ? hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result) : result;
  }
}
template <class D, class V>
HWY_INLINE V Sin(D d, V x) {
  return LargeLanes(d, x, SinShifted<0>(d, x), Fp<hn::TFromD<D>>::kTrigLimit,
                    [](auto v) HWY_ATTR { return std::sin(v); });
}
template <class D, class V>
HWY_INLINE V Cos(D d, V x) {
  return LargeLanes(d, x, SinShifted<1>(d, x), Fp<hn::TFromD<D>>::kTrigLimit,
                    [](auto v) HWY_ATTR { return std::cos(v); });
}
template <class D, class V>
HWY_INLINE V Tan(D d, V x) {
  using T = hn::TFromD<D>;
  V result;
  if constexpr (sizeof(T) == 4) {
    result = InDouble(d, TESSERA_IN_DOUBLE(BriefTan), x);
  } else {
    Two<V> sine, cosine;
    SinAndCosTwo(d, x, sine, cosine);
    result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x,
                            Quotient(d, FastSum(sine.hi, sine.lo), FastSum(cosine.hi, cosine.lo)).hi);
  }
  return LargeLanes(d, x, result, Fp<T>::kTrigLimit, [](auto v) HWY_ATTR { return std::tan(v); });
}

// For float32 results: the angle of (x, y), 0 <= y, 0 <= x, not both 0 or infinite.
template <class D, class V>
TESSERA_MATH_PART V BriefAngle(D d, V y, V x) {
  const auto swap = hn::Gt(y, x);
  const V t = hn::Mul(hn::Min(x, y), Inverse(d, hn::Max(x, y))), z = hn::Mul(t, t);
  constexpr double kC[] = {-0.3333333329330117353,  0.199999902759472717,     -0.1428531796390730316,
                           0.1110470678864421774,   -0.09036742342070774125,  0.07417496964300487712,
                           -0.05760716083128071106, 0.03832744598306425148,   -0.0192610813227654169,
                           0.006207254533779845118, -0.0009362994719495626958};  // of (atan t - t) / t^3, to 3e-10
  const V r = hn::MulAdd(hn::Mul(t, z), Polynomial(d, z, kC), t);
  return hn::IfThenElse(swap, hn::Sub(hn::Set(d, 1.57079632679489661923), r), r);
}
template <class D, class V>
TESSERA_MATH_PART Two<V> Angle(D d, V y, V x) {
  const Two<V> r = AtanTwo(d, hn::Min(x, y), hn::Max(x, y));
  return Choose(hn::Gt(y, x), QuarterTurnsMinus<1>(d, r), r);
}

#if HWY_TARGET == HWY_AVX3
HWY_INLINE hn::Vec<Wide> AtanByTable(Wide d, hn::Vec<Wide> a) {
  using V = hn::Vec<Wide>;
  const V one = hn::Set(d, 1.0f);
  const auto far = hn::Gt(a, one);
  const V inverse = hn::Div(one, a), t = hn::IfThenElse(far, inverse, a),
          t_low = hn::IfThenElseZero(far, hn::Mul(inverse, hn::NegMulAdd(a, inverse, one)));
  const Two<V> r = PiecewiseTwo(tables::kAtan, t, PieceNumber(d, t, 31));
  const Two<V> sum = FastSum(hn::Set(d, 1.57079637f), hn::Neg(r.hi));
  const V slope_low = hn::Mul(t_low, hn::MulAdd(t, hn::Set(d, -0.5f), one));  // t_low / (1 + t^2), nearly
  const V low = hn::Add(r.lo, slope_low);
  return hn::Add(hn::IfThenElse(far, sum.hi, r.hi),
                 hn::IfThenElse(far, hn::Sub(hn::Sub(sum.lo, hn::Set(d, 4.37113883e-08f)), low), low));
}
#endif

template <class D, class V>
HWY_INLINE V Atan(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), a = hn::Min(hn::Abs(x), hn::Set(d, static_cast<T>(1e30)));
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && kFullVector<D>)
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(AtanByTable(d, a), x));
#endif
  V r;
  if constexpr (sizeof(T) == 4)
    r = InDouble(
        d, [](auto dd, auto v) HWY_ATTR { return BriefAngle(dd, v, hn::Set(dd, 1.0)); }, a);
  else
    r = Rounded(Angle(d, a, one));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, static_cast<T>(1e-10))), x,
                        hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(r, x)));
}

template <class D, class V>
HWY_INLINE V Atan2(D d, V y, V x) {
  using T = hn::TFromD<D>;
  // Infinite numbers: 1 beside a finite 0, or both 1.
  const V inf = hn::Inf(d), zero = hn::Zero(d), one = hn::Set(d, T{1});
  V ax = hn::Abs(x), ay = hn::Abs(y);
  const auto infinite = hn::Or(hn::Eq(ax, inf), hn::Eq(ay, inf));
  ax = hn::IfThenElse(infinite, hn::IfThenElseZero(hn::Eq(ax, inf), one), ax);
  ay = hn::IfThenElse(infinite, hn::IfThenElseZero(hn::Eq(ay, inf), one), ay);
  ax = hn::IfThenElse(hn::And(hn::Eq(ax, zero), hn::Eq(ay, zero)), one, ax);
  const auto behind = hn::Lt(hn::CopySign(one, x), zero);
  V r;
  if constexpr (sizeof(T) == 4) {
    const V turn = hn::IfThenElseZero(behind, one);
    r = InDouble(
        d,
        [](auto dd, auto v, auto w, auto t) HWY_ATTR {
          const auto angle = BriefAngle(dd, v, w);
          return hn::IfThenElse(hn::Gt(t, hn::Zero(dd)), hn::Sub(hn::Set(dd, 3.14159265358979323846), angle), angle);
        },
        ay, ax, turn);
  } else {
    const V tiny = hn::Set(d, 1e-280), huge = hn::Set(d, 1e280), large = hn::Max(ax, ay);
    const V scale =
        hn::IfThenElse(hn::Lt(large, tiny), huge,
                       hn::IfThenElse(hn::Gt(large, huge), tiny,
                                      one));  // so that the quotient's rest is neither subnormal nor infinite
    const Two<V> angle = Angle(d, hn::Mul(ay, scale), hn::Mul(ax, scale));
    const V plain = hn::Div(ay, ax);
    r = Rounded(Choose(behind, QuarterTurnsMinus<2>(d, angle), angle));
    r = hn::IfThenElse(hn::AndNot(behind, hn::Lt(plain, hn::Set(d, 1e-140))), plain, r);
  }
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::Add(x, y), hn::CopySign(r, y));
}

// (asin t - t) / t^3 in z = t^2 <= 1/4, to 1e-9 or 4e-18 of asin t.
template <class D, class V>
TESSERA_MATH_PART V AsinSeries(D d, V z) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    constexpr double kC[] = {0.1666666633743090705,  0.07500094543497423476, 0.04459940152851218372,
                             0.03110066273549456793, 0.01714923835767725319, 0.03369084720283011952};
    return Polynomial(d, z, kC);
  } else {
    constexpr double kC[] = {0.1666666666666666783,  0.07499999999998432933, 0.04464285714635542978,
                             0.03038194413853124729, 0.02237217294214988787, 0.01735239272086997294,
                             0.0139712129735529333,  0.0114791774151849059,  0.01032281435018577929,
                             0.0054575067186403583,  0.01740087944269402244, -0.01485188707124720322,
                             0.02875785136742156471};
    return Polynomial(d, z, kC);
  }
}
// asin t = t + t^3 P(t^2) for t = |x| up to 1/2; beyond, asin |x| is pi / 2 - 2 asin t, t = sqrt((1 - |x|) / 2). Both
// functions are base + factor asin t.
template <bool kSine, class D, class V>
HWY_INLINE V ArcOf(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr bool kFloat = sizeof(T) == 4;
  const auto number = [&](double c) HWY_ATTR { return hn::Set(d, static_cast<T>(c)); };
  const V a = hn::Abs(x), half = number(0.5), zero = hn::Zero(d);
  const auto far = hn::Gt(a, half);
  const V square = hn::Mul(hn::Sub(number(1), a), half), z = hn::IfThenElse(far, square, hn::Mul(a, a));
  Two<V> root;
  if constexpr (!kFloat) {
    root = Root(d, Two<V>{square, zero});
  } else {
    root = {hn::Sqrt(square), zero};
    if constexpr (HWY_TARGET != HWY_SSE4)
      root.lo = hn::IfThenElseZero(hn::Gt(square, zero),
                                   hn::Div(hn::Mul(hn::NegMulAdd(root.hi, root.hi, square), half), root.hi));
  }
  const V t = hn::IfThenElse(far, root.hi, a), lost = hn::IfThenElseZero(far, root.lo);
  const V pi_high = number(kFloat ? 3.1415927410125732 : 3.14159265358979312),
          pi_low = number(kFloat ? -8.742277657347586e-8 : 1.2246467991473532e-16);
  V turns, factor;  // base = turns pi
  if constexpr (kSine) {
    turns = hn::IfThenElseZero(far, half);
    factor = hn::IfThenElse(far, number(-2), number(1));
  } else {
    const V one = hn::CopySign(number(1), x);
    turns = hn::IfThenElse(far, hn::IfThenElseZero(hn::Lt(x, zero), number(1)), half);
    factor = hn::IfThenElse(far, hn::Add(one, one), hn::Neg(one));
  }
  const Two<V> sum = FastSum(hn::Mul(turns, pi_high), hn::Mul(factor, t));
  const V rest = hn::MulAdd(hn::Mul(t, z), AsinSeries(d, z), lost);
  const V r = hn::Add(sum.hi, hn::MulAdd(factor, rest, hn::MulAdd(turns, pi_low, sum.lo)));
  return kSine ? hn::CopySign(r, x) : r;
}
template <class D, class V>
HWY_INLINE V Asin(D d, V x) {
  return ArcOf<true>(d, x);
}
template <class D, class V>
HWY_INLINE V Acos(D d, V x) {
  return ArcOf<false>(d, x);
}

template <class D, class V>
HWY_INLINE V Hypot(D d, V x, V y) {
  const V ax = hn::Abs(x), ay = hn::Abs(y), inf = hn::Inf(d);
  V r;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    r = InDouble(
        d, [](auto dd, auto v, auto w) HWY_ATTR { return hn::Sqrt(hn::MulAdd(v, v, hn::Mul(w, w))); }, ax, ay);
  } else {
    // Both divided by about the larger one's power of two.
    const hn::RebindToUnsigned<D> du;
    const V large = hn::Max(ax, ay), small = hn::Min(ax, ay);
    const V bounded = hn::Min(hn::Max(large, hn::Set(d, 1e-240)), hn::Set(d, 8e307));
    const auto exponent = hn::And(hn::BitCast(du, bounded), hn::Set(du, uint64_t{0x7ff0000000000000}));
    const V down = hn::BitCast(d, hn::Sub(hn::Set(du, uint64_t{0x7fe0000000000000}), exponent)),
            a = hn::Mul(large, down), b = hn::Mul(small, down);
    const Two<V> aa = Product(d, a, a), bb = Product(d, b, b), sum = FastSum(aa.hi, bb.hi);
    r = hn::Mul(Root(d, Two<V>{sum.hi, hn::Add(sum.lo, hn::Add(aa.lo, bb.lo))}).hi, hn::BitCast(d, exponent));
    r = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::NaN(d), r);
  }
  return hn::IfThenElse(hn::Or(hn::Eq(ax, inf), hn::Eq(ay, inf)), inf, r);
}

// Horner's rule for a polynomial and its derivative.
template <size_t kNext, class D, class V, size_t N>
HWY_INLINE void SlopeSteps(D d, V x, V& value, V& slope, const double (&c)[N]) {
  if constexpr (kNext > 0) {
    slope = hn::MulAdd(slope, x, value);
    value = hn::MulAdd(value, x, hn::Set(d, c[kNext - 1]));
    SlopeSteps<kNext - 1>(d, x, value, slope, c);
  }
}
// The modified Bessel functions of order 0 and 1: polynomials in x^2 / 4 up to 7.75, beyond e^|x| / sqrt |x| times ones
// in 1 / |x|.
struct BesselI0 {
  static constexpr int kOrder = 0;
  static constexpr double kNear[] = {1.0,
                                     0.25,
                                     0.02777777777777777,
                                     0.0017361111111111264,
                                     6.944444444442643e-05,
                                     1.9290123456917823e-06,
                                     3.9367598885468295e-08,
                                     6.151187345855877e-10,
                                     7.59405799151242e-12,
                                     7.59406569086215e-14,
                                     6.275992815367177e-16,
                                     4.359179222574322e-18,
                                     2.573849552118932e-20,
                                     1.338658615422607e-22,
                                     5.168493361903827e-25,
                                     3.4544079411937995e-27};  // of (I0 - 1) / (x^2 / 4), to 4e-17 of I0
  static constexpr double kFar[] = {
      0.4022850564674586,      0.0034780646235956203,   0.00014630498370108745,
      1.247061949552825e-05,   1.74085963299808e-06,    3.696989283958099e-07,
      1.1886381565441856e-07,  5.637131150009912e-08,   3.012959363301716e-08,
      6.086579246912475e-09,   -1.6373869053988616e-08, -2.0960554582433885e-08,
      -1.7159989140344094e-09, 1.5625722167112498e-08,  6.332540307171994e-09,
      -9.824424076007666e-09,  -5.0999983243641744e-09, 5.573818704576001e-09,
      2.5721402297695323e-09,  -2.520910630853554e-09,  -7.902787441277742e-10,
      7.52267855962837e-10,    1.1207103096079571e-10,  -1.0645391402765477e-10};  // by 15.5 / |x| - 1, to 4e-17
};
struct BesselI1 {
  static constexpr int kOrder = 1;
  static constexpr double kNear[] = {0.5,
                                     0.08333333333333365,
                                     0.006944444444443092,
                                     0.00034722222222452215,
                                     1.1574074072034591e-05,
                                     2.7557319332237996e-07,
                                     4.920949489560183e-09,
                                     6.834661244380738e-11,
                                     7.593918174961441e-13,
                                     6.905285550129844e-15,
                                     5.2173743943673564e-17,
                                     3.4214548692591314e-19,
                                     1.6012134637120522e-21,
                                     1.3565312919607164e-23};  // of (2 I1 / x - 1) / (x^2 / 4), to 1e-17
  static constexpr double kFar[] = {
      0.38908372789601825,     -0.010078728909315667,   -0.00023517122406900627,
      -1.6805827222710984e-05, -2.149009678783143e-06,  -4.321655455027974e-07,
      -1.3363020672978685e-07, -6.175299546431828e-08,  -3.2805549539201336e-08,
      -7.182463921093855e-09,  1.6713164232593522e-08,  2.206738277403427e-08,
      2.4220678342789964e-09,  -1.5887373445342125e-08, -7.017344636483503e-09,
      9.624075160515258e-09,   5.546015281607703e-09,   -5.240905027354688e-09,
      -2.7876888303123036e-09, 2.2764013240914274e-09,  8.578447869565653e-10,
      -6.545910985458594e-10,  -1.2207333534444686e-10, 8.962044869293296e-11};  // by 15.5 / |x| - 1, to 4e-17
};
template <class F, class D, class V>
HWY_NOINLINE V BesselI(D d, V x) {
  constexpr size_t kTerms = sizeof(F::kNear) / sizeof(double);
  const V one = hn::Set(d, 1.0), a = hn::Abs(x), edge = hn::Set(d, 7.75),
          half = hn::Mul(hn::Min(a, edge), hn::Set(d, 0.5));
  const Two<V> z = Product(d, half, half);
  V p = hn::Set(d, F::kNear[kTerms - 1]), slope = hn::Zero(d);
  SlopeSteps<kTerms - 1>(d, z.hi, p, slope, F::kNear);
  V near = hn::Add(hn::MulAdd(z.hi, p, one), hn::Mul(z.lo, hn::MulAdd(z.hi, slope, p)));
  if constexpr (F::kOrder == 1) near = hn::Mul(near, half);
  const V limited = hn::Max(edge, hn::Min(a, hn::Set(d, 800.0))), t = hn::Div(one, limited);
  V n;
  const Two<V> e = ExpTwo<false>(d, limited, limited, n);
  const V factor = hn::Mul(hn::Sqrt(t), Polynomial(d, hn::MulSub(t, hn::Set(d, 15.5), one), F::kFar));
  V r = hn::IfThenElse(hn::Gt(a, edge), ScaleByPower(d, hn::MulAdd(e.hi, factor, hn::Mul(e.lo, factor)), n), near);
  r = hn::Add(r, hn::Sub(a, a));  // nan for nans and, like PyTorch's, for infinities
  if constexpr (F::kOrder == 1) r = hn::Xor(r, hn::And(x, hn::SignBit(d)));
  return r;
}

// The Hurwitz zeta function, sum over k >= 0 of (q + k)^-s, for s > 1 and finite q > 0: ten terms and the
// Euler-Maclaurin formula (NIST DLMF 25.11.5); where q is large, the formula alone.
template <class D, class V, class Power>
HWY_INLINE V ZetaOf(D d, V s, V q, Power power_of) {
  constexpr double kC[] = {1.0 / 12,
                           -1.0 / 720,
                           1.0 / 30240,
                           -1.0 / 1209600,
                           1.0 / 47900160,
                           -691.0 / 1307674368000,
                           1.0 / 74724249600,
                           -3617.0 / 10670622842880000,
                           43867.0 / 5109094217170944000,
                           -174611.0 / 802857662698291200000.0};  // of Bernoulli's numbers, B(2k) / (2k)!
  const V one = hn::Set(d, 1.0), minus_s = hn::Neg(s), large = hn::Set(d, 1e6), ten = hn::Set(d, 10.0);
  const auto near = hn::Lt(q, large);
  V sum = hn::Zero(d), from = q;
  if (!hn::AllFalse(d, near)) {
    V p = hn::IfThenElse(near, q, one);
    for (int k = 0; k < 10; ++k, p = hn::Add(p, one)) sum = hn::Add(sum, power_of(d, p, minus_s));
    sum = hn::IfThenElseZero(near, sum);
    from = hn::IfThenElse(near, hn::Add(q, ten), q);
  }
  const V power = power_of(d, from, minus_s), inverse = hn::Div(one, from), z = hn::Mul(inverse, inverse),
          least = hn::Min(s, hn::Set(d, 1e4));  // of such powers nothing is left beside the first
  V tail = hn::Zero(d), factor = hn::Mul(least, inverse);
  for (int k = 0; k < 10; ++k) {
    tail = hn::MulAdd(factor, hn::Set(d, kC[k]), tail);
    const V next = hn::Add(least, hn::Set(d, 2.0 * k + 1));
    factor = hn::Mul(factor, hn::Mul(hn::Mul(next, hn::Add(next, one)), z));
  }
  tail = hn::Add(tail, hn::Add(hn::Div(from, hn::Sub(s, one)), hn::Set(d, 0.5)));
  return hn::MulAdd(power, tail, sum);
}
// x^-s by products.
inline constexpr int kFewPowers = 6;
template <class D, class V>
HWY_INLINE V InversePower(D d, V x, int s) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d);
  const auto inside = hn::And(hn::Gt(x, hn::Set(d, 1e-48)), hn::Lt(x, hn::Set(d, 1e48)));
  const Two<V> factor{hn::IfThenElse(inside, x, one), zero};
  Two<V> p = factor;
  for (int k = 1; k < s; ++k) p = Product(d, p, factor);
  const V inverse = hn::Div(one, p.hi), r = hn::NegMulAdd(hn::Mul(inverse, p.lo), inverse, inverse);
  if (HWY_LIKELY(hn::AllTrue(d, inside))) return r;
  const V once = hn::Div(one, x);
  V other = once;
  for (int k = 1; k < s; ++k) other = hn::Mul(other, once);
  return hn::IfThenElse(inside, r, other);
}
template <class D, class V>
HWY_NOINLINE V ZetaDouble(D d, V s, V q) {
  const double order = hn::GetLane(s);
  const int whole = order >= 2 && order <= kFewPowers ? static_cast<int>(order) : 0;
  if (whole == order && hn::AllTrue(d, hn::Eq(s, hn::Set(d, order))))
    return ZetaOf(d, s, q, [=](auto dd, auto v, auto) HWY_ATTR { return InversePower(dd, v, whole); });
  return ZetaOf(d, s, q, [](auto dd, auto v, auto w) HWY_ATTR { return PowerOfPositive(dd, v, w); });
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
