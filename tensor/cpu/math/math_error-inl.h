// The error functions on vectors, their inverse and the tails of the normal distribution, float32 and float64. Included
// inside foreach_target.h's passes.
#if defined(TESSERA_TENSOR_CPU_MATH_ERROR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_ERROR_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_ERROR_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_ERROR_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {

template <class D, class V>
TESSERA_MATH_PART V ErfDouble(D d, V x) {  // a nan stays
  const V a = hn::Min(hn::Set(d, 5.95), hn::Abs(x)),
          shifted = hn::Min(hn::Set(d, 6755399441055744.0 + 15), ShiftedSteps(d, a, 2.6666666666666667)),
          t = hn::NegMulAdd(Unshifted(d, shifted), hn::Set(d, 0.375), a);
  return hn::CopySign(
      PieceTwo(d, TESSERA_PIECES(kErf64), hn::BitCast(hn::RebindToUnsigned<D>(), shifted), Two<V>{t, hn::Zero(d)}).hi,
      x);
}

// e^(z^2) erfc(z) of z = a + low, 0 <= a <= 28, by pieces in t = 3 / (3 + z): the value in the middle of a piece, and
// what is to be added, which is smaller than a quarter of it.
template <class D, class V>
TESSERA_MATH_PART Two<V> ScaledErfc(D d, V a, V low) {
  const V three = hn::Set(d, 3.0), below = hn::Add(three, a),
          below_low = hn::Add(low, hn::Sub(hn::Min(a, three), hn::Sub(below, hn::Max(a, three))));
  const V inverse = Inverse(d, below), t = hn::Mul(three, inverse);
  const V rest = hn::Neg(hn::MulAdd(t, below_low, ProductMinus(d, t, below, three)));  // 3 - t (3 + z)
  const V shifted = ShiftedSteps(d, t, 16),
          near = hn::MulAdd(rest, inverse, hn::NegMulAdd(Unshifted(d, shifted), hn::Set(d, 0.0625), t));
  const auto at = PieceAt(d, TESSERA_PIECES(kScaledErfc64), hn::BitCast(hn::RebindToUnsigned<D>(), shifted));
  const V slope = hn::MulAdd(PieceRest<4, decltype(at)::kCount>(at, near), near, at.template row<2>());
  return {at.template row<0>(), hn::MulAdd(slope, near, hn::MulAdd(at.template row<3>(), near, at.template row<1>()))};
}
// e^(-square) scaled = 2^n times the result, for squares up to 800.
template <class D, class V>
TESSERA_MATH_PART V TimesGauss(D d, Two<V> square, Two<V> scaled, V& n) {
  const V x = hn::Neg(square.hi), shifted = ShiftedSteps(d, x, 23.083120654223414518), steps = Unshifted(d, shifted);
  n = hn::Floor(hn::Mul(steps, hn::Set(d, 0.0625)));
  const V near = hn::NegMulAdd(steps, hn::Set(d, 0x1.62e42fefa0000p-5), x),
          r = hn::Sub(hn::NegMulAdd(steps, hn::Set(d, 0x1.cf79abc9e3b3ap-44), near), square.lo);
  const auto at = PieceAt(d, TESSERA_PIECES(kExp64), hn::BitCast(hn::RebindToUnsigned<D>(), shifted));
  const V high = at.template row<0>(), p = hn::MulAdd(hn::Mul(r, r), ExpSeries(d, r), r),
          more = hn::MulAdd(high, p, at.template row<1>());
  const Two<V> product = Product(d, high, scaled.hi);
  return hn::Add(product.hi, hn::MulAdd(high, scaled.lo, hn::MulAdd(more, hn::Add(scaled.hi, scaled.lo), product.lo)));
}

// For float32 results: erfc(z) e^(z^2) / 2 by t Q(t), t = 1 / (1 + 0.35 z), to 1e-8.
template <class D, class V>
TESSERA_MATH_PART V BriefScaledErfc(D d, V z) {
  constexpr double kQ[] = {0.09874056588864698406,  0.09859010027005577398, 0.09381468425869737292,
                           0.07606819105914907019,  0.07207951917336576871, 0.04452293403998755366,
                           -0.01425678361215842862, 0.09047616227146293406, -0.0791400233577159369,
                           0.01910465267178722867};
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), below = hn::MulAdd(z, hn::Set(d, static_cast<T>(0.35)), one);
  V t;
  if constexpr (sizeof(T) == 8)
    t = Inverse(d, below);
  else
    t = hn::Div(one, below);
  return hn::Mul(t, Polynomial(d, t, kQ));
}
// The upper tail of the standard normal distribution at |x|, and gauss = e^(-x^2 / 2).
template <class D, class V>
HWY_INLINE V NormalTail(D d, V x, V& gauss) {
  using T = hn::TFromD<D>;
  const V a = hn::Abs(x);
  if constexpr (sizeof(T) == 8) {
    const V limited = hn::Min(hn::Set(d, 39.0), a);
    const Two<V> square = Product(d, limited, hn::Mul(limited, hn::Set(d, 0.5))),
                 z = Product(d, limited, hn::Set(d, 0.70710678118654757));
    V n;
    const Two<V> e = ExpTwo<true>(d, hn::Neg(square.hi), hn::Neg(square.lo), n);
    gauss = ScaleByPower(d, e.hi, n);
    const Two<V> scaled = ScaledErfc(d, z.hi, hn::MulAdd(limited, hn::Set(d, -4.833646656726457e-17), z.lo));
    return ScaleByPower(d, Product(d, e, FastSum(scaled.hi, scaled.lo)).hi, hn::Sub(n, hn::Set(d, 1.0)));
  } else {
    gauss = Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
    return hn::Mul(gauss, BriefScaledErfc(d, hn::Mul(a, hn::Set(d, 0.707106781f))));
  }
}

template <class D, class V>
HWY_INLINE V NormalTail(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4 && kFullVector<D>) {
    const V limit = hn::Set(d, 5.9f), a = hn::Min(limit, hn::Abs(x));
    const V tail = Piecewise(tables::kNormalTail, a, PieceNumber(d, a, 16.0 / 3));
    const auto beyond = hn::Lt(x, hn::Neg(limit));  // on the other side the tail counts for nothing beside x
    if (HWY_LIKELY(hn::AllFalse(d, beyond))) return tail;
    V gauss;
    return hn::IfThenElse(beyond, NormalTail(d, x, gauss), tail);
  }
#endif
  V gauss;
  return NormalTail(d, x, gauss);
}

// Pieces of 0 .. 4; the first one, of erf(x) - x, has its center in 0.
template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return ErfDouble(d, x);
  } else {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kFullVector<D>) {
      const V a = hn::Min(hn::Set(d, 3.93f), hn::Abs(x));
      const auto piece = PieceNumber(d, a, 8);
      const V t = hn::Sub(a, Column(tables::kErf[0], piece));
      const V first = hn::IfThenElse(hn::Eq(t, a), a, Column(tables::kErf[1], piece));
      const V slope =
          PieceSteps<5, 2>(tables::kErf, piece, t, Column(tables::kErf[6], piece));  // without the first coefficient
      return hn::CopySign(hn::MulAdd(slope, t, first), x);
    }
#elif HWY_TARGET == HWY_AVX2
    if constexpr (kAllFloats<D>) {
      const V a = hn::Min(hn::Set(d, 3.93f), hn::Abs(x));
      // Rounded down, but for numbers so near to the next piece that its polynomial is as good.
      const auto piece =
          hn::BitCast(hn::RebindToUnsigned<D>(),
                      hn::Add(hn::MulAdd(a, hn::Set(d, 2.0f), hn::Set(d, -0.5f)), hn::Set(d, 12582912.0f)));
      const V t = hn::Sub(a, EntryOf8(tables::kErfBy8[0], piece)),
              first = hn::IfThenElse(hn::Eq(t, a), a, EntryOf8(tables::kErfBy8[1], piece));
      return hn::CopySign(hn::MulAdd(StepsOf8<2>(tables::kErfBy8, piece, t), t, first), x);
    }
#endif
    return InDouble(d, TESSERA_IN_DOUBLE(ErfDouble), x);
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// erfc(z) = e^(-z^2) (e^(z^2) erfc(z)), the latter by pieces, of z = a (factor + factor_low) from 0 to 11, where
// minus_square = -z^2 as a sum: 2^n times the result.
template <class D, class V>
HWY_INLINE V ErfcOfFloat(D d, V a, float factor, float factor_low, Two<V> minus_square, V& n) {
  const V z = hn::Mul(a, hn::Set(d, factor));
  const auto piece = hn::ShiftRight<22>(hn::BitCast(hn::RebindToUnsigned<D>(), hn::Add(z, hn::Set(d, 1.0f))));
  const V t = hn::MulAdd(a, hn::Set(d, factor_low),
                         hn::MulSub(a, hn::Set(d, factor), EntryOf8(tables::kScaledErfc[0], piece))),
          first = EntryOf8(tables::kScaledErfc[1], piece),
          more = hn::Mul(StepsOf8<2>(tables::kScaledErfc, piece, t), t);
  const Two<V> e = ExpOfFloatTwo(d, minus_square.hi, minus_square.lo, n);
  const V product = hn::Mul(e.hi, first);
  return hn::Add(product,
                 hn::MulAdd(e.hi, more, hn::MulAdd(e.lo, hn::Add(first, more), hn::MulSub(e.hi, first, product))));
}
#endif

// For float32 results: 1 - erf x; that of -x is 2 minus it.
template <class D, class V>
TESSERA_MATH_PART V BriefErfc(D d, V x) {
  const V a = hn::Min(hn::Set(d, 12.0), hn::Abs(x));
  V p;
  const V s = BriefExp(d, hn::Neg(hn::Mul(a, a)), p), scaled = BriefScaledErfc(d, a),
          r = hn::Mul(hn::MulAdd(s, p, s), hn::Add(scaled, scaled));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), r), r);
}
template <class D, class V>
HWY_INLINE V Erfc(D d, V x) {
  using T = hn::TFromD<D>;
  const auto negative = hn::Lt(x, hn::Zero(d));
  V n, r;
  if constexpr (sizeof(T) == 4) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    if constexpr (kAllFloats<D>) {
      const V a = hn::Min(hn::Set(d, 10.5f), hn::Abs(x)), square = hn::Mul(a, a);
      r = ErfcOfFloat(d, a, 1, 0, Two<V>{hn::Neg(square), hn::NegMulAdd(a, a, square)}, n);
    } else
#endif
      return InDouble(d, TESSERA_IN_DOUBLE(BriefErfc), x);
  } else {
    const V a = hn::Min(hn::Set(d, 28.0), hn::Abs(x));
    r = TimesGauss(d, Product(d, a, a), ScaledErfc(d, a, hn::Zero(d)), n);
  }
  const V scaled = ScaleByPower(d, r, n);
  return hn::IfThenElse(negative, hn::Sub(hn::Set(d, T{2}), scaled), scaled);
}

// erfinv(y) / y by pieces in w = -log(1 - y^2): the number of the piece and w's distance from the middle of it.
template <class D, class V>
HWY_INLINE V ErfinvPiece(D d, V w, hn::Vec<hn::RebindToUnsigned<D>>& piece) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, hn::MulAdd(w, hn::Set(d, 0.8), hn::Set(d, 2.0)));
  piece = hn::ShiftRight<50>(bits);
  const V middle = hn::BitCast(d, hn::Or(hn::ShiftLeft<50>(piece), hn::Set(du, uint64_t{1} << 49)));
  return hn::Sub(w, hn::MulSub(middle, hn::Set(d, 1.25), hn::Set(d, 2.5)));
}
// w = -log(1 - y^2) for |y| < 1, else 0. Its absolute error counts, where it is small: one of half a unit in the last
// place of 1 - y^2 is enough.
template <class D, class V>
HWY_INLINE V ErfinvLog(D d, V y) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), a = hn::Abs(y), inside = hn::IfThenElseZero(hn::Lt(a, one), a);
#if HWY_TARGET == HWY_SSE4
  const V u = hn::Mul(hn::Sub(one, inside), hn::Add(one, inside));
#else
  const V u = hn::NegMulAdd(inside, inside, one);
#endif
  V log;
  if constexpr (sizeof(T) == 8)
    log = JoinLogBriefly(d, SplitLog<true, false>(d, u, hn::Zero(d), hn::Zero(d)));
  else
    log = Log(d, u);
  return hn::Max(hn::Zero(d), hn::Neg(log));
}
// erfinv(y) / y from that w; of float32 from 0 to 22, for full vectors.
template <class D, class V>
HWY_INLINE Two<V> ErfinvRatio(D d, V w) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    hn::Vec<hn::RebindToUnsigned<D>> piece;
    const V t = ErfinvPiece(d, w, piece);
    return PieceTwo(d, TESSERA_PIECES(kErfinv64), piece, Two<V>{t, hn::Zero(d)});
  } else {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    const auto piece = hn::ShiftRight<22>(hn::BitCast(hn::RebindToUnsigned<D>(), hn::Add(w, hn::Set(d, 2.0f))));
    const V t = hn::Sub(w, EntryOf8(tables::kErfinv[0], piece)), first = EntryOf8(tables::kErfinv[1], piece);
    return FastSum(first, hn::Mul(StepsOf8<2>(tables::kErfinv, piece, t), t));
#endif
  }
}
template <class D, class V>
HWY_INLINE V ErfinvByLog(D d, V w, V y) {
  const V a = hn::Abs(y), one = hn::Set(d, hn::TFromD<D>{1});
  const Two<V> f = ErfinvRatio(d, w), p = Product(d, a, f.hi);
  const V r = hn::Add(p.hi, hn::MulAdd(a, f.lo, p.lo));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, one), r, hn::IfThenElse(hn::Eq(a, one), hn::Inf(d), hn::NaN(d))), y);
}
template <class D, class V>
HWY_INLINE V Erfinv(D d, V y) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  constexpr bool kDirect = sizeof(hn::TFromD<D>) == 8 || kAllFloats<D>;
#else
  constexpr bool kDirect = sizeof(hn::TFromD<D>) == 8;
#endif
  if constexpr (kDirect)
    return ErfinvByLog(d, ErfinvLog(d, y), y);
  else
    return InDouble(
        d, [](auto dd, auto v) HWY_ATTR { return ErfinvByLog(dd, ErfinvLog(dd, v), v); }, y);
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
