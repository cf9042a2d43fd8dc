// The normal distribution and the scaled error function. Included inside foreach_target.h's passes, and by device code
// (tensor/cuda/one_lane).
#if defined(TESSERA_SPECIAL_CPU_NORMAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_NORMAL_INL_H_
#undef TESSERA_SPECIAL_CPU_NORMAL_INL_H_
#else
#define TESSERA_SPECIAL_CPU_NORMAL_INL_H_
#endif

#include "hwy/highway.h"
#include "special/cpu/pieces-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// e^(z^2) erfc(z) / 2 for z >= 0, to 2 units in the last place.
template <class D, class V>
HWY_INLINE V HalfScaledErfc(D d, V z) {
  const V one = hn::Set(d, 1.0), below = hn::MulAdd(hn::Min(hn::Set(d, 1e200), z), hn::Set(d, 0.35), one);
  if constexpr (kForFloat<D>) {
    const V t = math::Inverse(d, below);
    return hn::Mul(t, math::Polynomial(d, hn::Sub(t, hn::Set(d, 0.5)), tables::kErfcxHalfForFloat));
  } else {
    const V t = hn::Div(one, below);
    return hn::Mul(t, math::Polynomial(d, hn::Sub(t, hn::Set(d, 0.5)), tables::kErfcxHalf));
  }
}
// e^(a^2) erfc(a) for a >= 0; from 28 on the asymptotic series (NIST DLMF 7.12.1).
template <class D, class V>
HWY_INLINE V ScaledErfcOfAny(D d, V a) {
  if constexpr (kForFloat<D>) {
    const V half = HalfScaledErfc(d, a);
    return hn::Add(half, half);
  } else {
    const V edge = hn::Set(d, 28.0);
    const auto far = hn::Gt(a, edge);
    V r = math::Rounded(math::ScaledErfc(d, hn::Min(edge, a), hn::Zero(d)));
    if (HWY_UNLIKELY(!hn::AllFalse(d, far))) {
      constexpr double kC[] = {1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0};
      const V t = hn::Div(hn::Set(d, 1.0), a), h = hn::Mul(t, hn::Mul(t, hn::Set(d, 0.5)));
      r = hn::IfThenElse(far, hn::Mul(hn::Mul(t, hn::Set(d, 0.56418958354775629)), math::Polynomial(d, h, kC)), r);
    }
    return r;
  }
}
template <class D, class V>
HWY_NOINLINE V ScaledErrorFunction(D d, V x) {
  const V a = hn::Abs(x), r = ScaledErfcOfAny(d, a);
  const auto negative = hn::Lt(x, hn::Zero(d));
  if (hn::AllFalse(d, negative)) return r;
  const V limited = hn::Min(hn::Set(d, 28.0), a);  // infinite from 27 on
  const Two<V> square = math::Product(d, limited, limited);
  V grown = TimesExp(d, hn::Set(d, 2.0), square.hi, square.lo);
  if constexpr (kForFloat<D>) grown = hn::IfThenElse(hn::Gt(a, limited), hn::Inf(d), grown);
  return hn::IfThenElse(negative, hn::Sub(grown, r), r);
}

// scaled e^(-x^2 / 2), which is 0 from 39 on.
template <class D, class V>
HWY_INLINE V TimesGauss(D d, V scaled, V x) {
  const V limited = hn::Min(hn::Set(d, 39.0), hn::Abs(x));
  const Two<V> square = math::Product(d, limited, hn::Mul(limited, hn::Set(d, 0.5)));
  return TimesExp(d, scaled, hn::Neg(square.hi), hn::Neg(square.lo));
}
inline constexpr double kRootHalf = 0.70710678118654757, kRootHalfRest = -4.833646656726457e-17;
// erfc(|x| / sqrt 2) / 2 e^(-x^2 / 2) for x < 0, 1 minus it for others.
template <class D, class V>
HWY_NOINLINE V NormalCdf(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = hn::Min(hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 14.8 : 39)), hn::Abs(x)), one = hn::Set(d, T{1});
  V tail, n;
  if constexpr (sizeof(T) == 4) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    const V half = hn::Mul(a, hn::Set(d, -0.5f)), square = hn::Mul(a, half);
    tail = math::ErfcOfFloat(d, a, 0.707106769f, 1.21016175e-08f, Two<V>{square, hn::MulSub(a, half, square)}, n);
#endif
  } else if constexpr (kForFloat<D>) {
    return hn::Mul(hn::Set(d, 0.5), math::BriefErfc(d, hn::Mul(x, hn::Set(d, -kRootHalf))));
  } else {
    const Two<V> z = math::Product(d, a, hn::Set(d, kRootHalf));
    tail = math::TimesGauss(d, math::Product(d, a, hn::Mul(a, hn::Set(d, 0.5))),
                            math::ScaledErfc(d, z.hi, hn::MulAdd(a, hn::Set(d, kRootHalfRest), z.lo)), n);
  }
  tail = math::ScaleByPower(d, tail, hn::Sub(n, one));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
}

// Up to 0 log(erfcx(|x| / sqrt 2) / 2) - x^2 / 2, both terms negative; above log(1 - erfcx(x / sqrt 2) / 2 e^(-x^2 /
// 2)).
template <class D, class V>
HWY_NOINLINE V LogNormalCdf(D d, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), a = hn::Abs(x);
  const auto positive = hn::Gt(x, zero);
  const V scaled = HalfScaledErfc(d, hn::Mul(a, hn::Set(d, kRootHalf)));
  V tail = zero;
  if (!hn::AllFalse(d, positive)) tail = TimesGauss(d, hn::Neg(scaled), x);
  const V less = hn::IfThenElse(positive, zero, hn::Mul(a, hn::Mul(a, hn::Set(d, 0.5))));
  V r;
  if constexpr (kForFloat<D>) {
    // Where log(scaled) needs digits that scaled - 1 has lost, it is nothing beside x^2 / 2.
    const V below = hn::Sub(hn::Max(hn::Set(d, 1e-15), scaled), one);
    r = hn::Sub(math::BriefLog1p(d, hn::IfThenElse(positive, tail, below)), less);
  } else {
    const Two<V> sum = math::FastSum(one, tail);
    const V least = hn::Max(hn::Set(d, 1e-300), scaled);
    r = hn::Sub(math::LogTwo(d, math::Choose(positive, sum, Two<V>{least, zero})).hi, less);
  }
  return hn::IfThenElse(hn::IsNaN(x), x, r);
}

// The quantile of probabilities so small that 4 p (1 - p) is beyond the pieces of erfinv: Newton's method on the
// logarithm, from the first terms of its asymptotic expansion.
template <class D, class V>
HWY_NOINLINE V FarQuantile(D d, V p) {
  const V log = LogOf(d, p), root = hn::Sqrt(hn::Mul(log, hn::Set(d, -2.0)));
  V x = hn::Sub(hn::Div(hn::Add(LogOf(d, root), hn::Set(d, 0.91893853320467274)), root), root);
  for (int i = 0; i < 3; ++i) {
    const V a = hn::Neg(x), scaled = HalfScaledErfc(d, hn::Mul(a, hn::Set(d, kRootHalf)));
    const V value = hn::NegMulAdd(a, hn::Mul(a, hn::Set(d, 0.5)), LogOf(d, scaled));
    // The slope of log ndtr is sqrt(1 / 2 pi) / scaled.
    x = hn::NegMulAdd(hn::Mul(hn::Sub(value, log), scaled), hn::Set(d, 2.5066282746310002), x);
  }
  return x;
}
// sqrt(2) erfinv(2 p - 1), whose pieces go by w = -log(1 - (2 p - 1)^2) = -log(4 p (1 - p)). The logarithm needs no
// more digits: the function grows as its square root.
template <class D>
inline constexpr double kLeastQuantile = sizeof(hn::TFromD<D>) == 4 ? 4e-10 : 1.2e-16;
// p where it is among the pieces, 1/2 elsewhere.
template <class D, class V>
HWY_INLINE V QuantileArgument(D d, V p) {
  using T = hn::TFromD<D>;
  const auto near = hn::And(hn::Ge(p, hn::Set(d, static_cast<T>(kLeastQuantile<D>))), hn::Lt(p, hn::Set(d, T{1})));
  return hn::IfThenElse(near, p, hn::Set(d, static_cast<T>(0.5)));
}
template <class D, class V>
HWY_INLINE V QuantileLog(D d, V p) {
  using T = hn::TFromD<D>;
  const V q = QuantileArgument(d, p), square = hn::Mul(hn::Mul(q, hn::Set(d, T{4})), hn::Sub(hn::Set(d, T{1}), q));
  V log;
  if constexpr (sizeof(T) == 4)
    log = math::Log(d, square);
  else
    log = LogOf(d, square);
  return hn::Max(hn::Neg(log), hn::Zero(d));
}
template <class D, class V>
HWY_INLINE V QuantileByLog(D d, V w, V p) {
  using T = hn::TFromD<D>;
  const V q = QuantileArgument(d, p), one = hn::Set(d, T{1}), zero = hn::Zero(d), twice = hn::Add(q, q),
          y = hn::Sub(twice, one), least = hn::Set(d, static_cast<T>(kLeastQuantile<D>));
  const auto far = hn::And(hn::Gt(p, zero), hn::Lt(p, least));
  V r;
  if constexpr (sizeof(T) == 4) {
    const Two<V> f = math::ErfinvRatio(d, w), product = math::Product(d, y, f.hi);
    const V y_low = hn::Sub(twice, hn::Add(y, one)), root = hn::Set(d, 1.41421354f),
            low = hn::MulAdd(y, f.lo, hn::MulAdd(y_low, f.hi, product.lo));
    r = hn::MulAdd(product.hi, root, hn::MulAdd(product.hi, hn::Set(d, 2.42032323e-08f), hn::Mul(low, root)));
  } else {
    hn::Vec<hn::RebindToUnsigned<D>> piece;
    const V t = math::ErfinvPiece(d, w, piece);
    constexpr size_t kRows = kForFloat<D> ? 11 : sizeof(tables::kErfinv64) / sizeof(tables::kErfinv64[0]);
    r = hn::Mul(hn::Mul(y, hn::Set(d, 1.4142135623730951)),
                math::BriefPiece<kRows>(d, TESSERA_PIECES(kErfinv64), piece, t));
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, far))) {
    V tail;
    if constexpr (sizeof(T) == 4)
      tail = math::InDouble(
          d, [](auto dd, auto v) HWY_ATTR { return FarQuantile(ForFloat<decltype(dd)>(), v); }, hn::Min(least, p));
    else
      tail = FarQuantile(d, hn::Min(least, p));
    r = hn::IfThenElse(far, tail, r);
  }
  const V outside =
      hn::IfThenElse(hn::Eq(p, zero), hn::Neg(hn::Inf(d)), hn::IfThenElse(hn::Eq(p, one), hn::Inf(d), hn::NaN(d)));
  return hn::IfThenElse(hn::And(hn::Gt(p, zero), hn::Lt(p, one)), r, outside);
}
template <class D, class V>
HWY_NOINLINE V Quantile(D d, V p) {
  return QuantileByLog(d, QuantileLog(d, p), p);
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, functor, inputs, what it computes, dtypes): see kernels-inl.h.
// clang-format off
#define TESSERA_PLAIN_NORMAL_OPS(X) \
  X(erfcx, Erfcx, 1, ScaledErrorFunction, SINGLE_AND_DOUBLE) \
  X(ndtr, Ndtr, 1, NormalCdf, HALVES_TOO) \
  X(log_ndtr, LogNdtr, 1, LogNormalCdf, SINGLE_AND_DOUBLE)
#define TESSERA_NORMAL_OPS(X) \
  TESSERA_PLAIN_NORMAL_OPS(X) \
  X(ndtri, Ndtri, 1, Quantile, SINGLE_AND_DOUBLE)
// clang-format on

#endif  // per-target include guard
