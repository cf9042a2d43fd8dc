// What the formulas of the distributions share: elementary functions for both precisions, parts of the gamma family
// that do not cancel. Included inside foreach_target.h's passes.
#if defined(TESSERA_DISTRIBUTIONS_CPU_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_PARTS_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_PARTS_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_PARTS_INL_H_
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "tensor/cpu/math/math_gamma-inl.h"
#include "tensor/cpu/math/series.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {
namespace hn = hwy::HWY_NAMESPACE;

// Formulas are computed in double; those that need no more in float. A tag of vectors of doubles says that the result
// is rounded to float: errors of 1e-9 are small.
template <class D>
struct ForFloat : D {};
template <class D>
inline constexpr bool kForFloat = false;
template <class D>
inline constexpr bool kForFloat<ForFloat<D>> = true;

inline constexpr double kHalfLogTwoPi = 0.91893853320467274178, kLogPi = 1.14472988584940017414,
                        kLogTwo = 0.69314718055994530942, kPi = 3.14159265358979323846;

template <class D>
HWY_INLINE hn::Vec<D> Number(D d, double x) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(x));
}
template <class D>
HWY_INLINE hn::Vec<D> MinusInf(D d) {
  return hn::Neg(hn::Inf(d));
}

// The functions that nearly every formula calls are not inlined: that would be 290 KB, and no faster.
template <class D, class V>
HWY_NOINLINE V LogOf(D d, V x) {
  if constexpr (kForFloat<D>) {
    V k;
    const V log = math::BriefLog(d, x, hn::Zero(d), k);
    return math::LogSpecial(d, x, hn::MulAdd(k, hn::Set(d, kLogTwo), log));
  } else {
    return math::Log(d, x);
  }
}
template <class D, class V>
HWY_NOINLINE V Log1pOf(D d, V x) {
  if constexpr (kForFloat<D>)
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x,
                          math::LogSpecial(d, hn::Add(x, hn::Set(d, 1.0)), math::BriefLog1p(d, x)));
  else
    return math::Log1p(d, x);
}
template <class D, class V>
HWY_NOINLINE V ExpOf(D d, V x) {
  if constexpr (kForFloat<D>) {
    V p;
    const V low = hn::Set(d, -700.0), s = math::BriefExp(d, hn::Min(hn::Set(d, 700.0), hn::Max(low, x)), p);
    return hn::IfThenZeroElse(hn::Lt(x, low), hn::MulAdd(s, p, s));
  } else {
    return math::Exp(d, x);
  }
}
template <class D, class V>
HWY_NOINLINE V Expm1Of(D d, V x) {
  return math::Expm1(d, x);
}
// log(1 + e^x).
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  return hn::Add(hn::Max(hn::Zero(d), x), Log1pOf(d, ExpOf(d, hn::Neg(hn::Abs(x)))));
}

// a b, but 0 where a is 0 and b infinite.
template <class D, class V>
HWY_INLINE V Weighted(D d, V a, V b) {
  const auto none = hn::And(hn::Eq(a, hn::Zero(d)), hn::Eq(hn::Abs(b), hn::Inf(d)));
  return hn::IfThenZeroElse(none, hn::Mul(a, b));
}
template <class D, class V, class M>
HWY_INLINE V Outside(D d, M outside, V r) {
  return hn::IfThenElse(outside, MinusInf(d), r);
}
// Whether x is below 0, or infinite: where a density on the positive numbers is 0, whatever its formula gives there.
template <class D, class V>
HWY_INLINE auto BeyondPositive(D d, V x) {
  return hn::Or(hn::Lt(x, hn::Zero(d)), hn::Eq(x, hn::Inf(d)));
}

// log(1 + z^2), also where the square is infinite.
template <class D, class V>
HWY_INLINE V LogOnePlusSquare(D d, V z) {
  const V a = hn::Abs(z), edge = Number(d, 1e8);
  const auto large = hn::Gt(a, edge);
  V r = Log1pOf(d, hn::Mul(z, z));
  if (HWY_UNLIKELY(!hn::AllFalse(d, large))) {
    const V log = LogOf(d, a);
    r = hn::IfThenElse(large, hn::Add(log, log), r);
  }
  return r;
}

// log q - m for q = 1 + m, given both: next to q = 1 by the series of 2 artanh r - m, r = m / (2 + m), whose first
// terms are one.
template <class D, class V>
HWY_NOINLINE V LogMinus(D d, V q, V m) {
  constexpr double kC[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                           1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  const auto near = hn::Lt(hn::Abs(m), hn::Set(d, 0.25));
  V r = hn::Sub(LogOf(d, q), m);
  if (!hn::AllFalse(d, near)) {
    const V t = hn::Div(m, hn::Add(m, hn::Set(d, 2.0))), z = hn::Mul(t, t), cube = hn::Mul(hn::Add(t, t), z);
    r = hn::IfThenElse(near, hn::MulSub(cube, math::Polynomial(d, z, kC), hn::Mul(m, t)), r);
  }
  return hn::IfThenElse(hn::Eq(q, hn::Inf(d)), MinusInf(d), r);
}
// Whether x / a is so near 1 that the logarithms of a density cancel there.
template <class D, class V>
HWY_INLINE auto NearMode(D d, V a, V x) {
  const V ratio = hn::Div(x, a);
  return hn::And(hn::Gt(ratio, hn::Set(d, 1e-3)), hn::Lt(ratio, hn::Set(d, 1e3)));
}
// a log(x / a) - (x - a), the exponent of gamma and Poisson numbers, which loses no digits where x is near a.
template <class D, class V>
HWY_INLINE V PowerTerm(D d, V a, V x) {
  return hn::Mul(a, LogMinus(d, hn::Div(x, a), hn::Div(hn::Sub(x, a), a)));
}

template <class D, class V>
HWY_NOINLINE V LogGamma(D d, V x) {
  if constexpr (kForFloat<D>)
    return math::BriefLgamma(d, x);
  else
    return math::LgammaDouble(d, x);
}
// log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), x > 0; log is that of x. From 8 on its asymptotic series (NIST
// DLMF 5.11.1).
template <class D, class V>
HWY_NOINLINE V StirlingRest(D d, V x, V log) {
  constexpr double kC[] = {0.0833333333333333,     -0.002777777777606244, 0.0007936506649488252,
                           -0.0005952025951802712, 0.0008372834512071336, -0.0016526004455595122};
  const V eight = hn::Set(d, 8.0), t = hn::Div(hn::Set(d, 1.0), hn::Max(eight, x));
  const auto near = hn::Lt(x, eight);
  V r = hn::Mul(t, math::Polynomial(d, hn::Mul(t, t), kC));
  if (!hn::AllFalse(d, near)) {
    const V main = hn::Add(hn::MulSub(hn::Sub(x, hn::Set(d, 0.5)), log, x), hn::Set(d, kHalfLogTwoPi));
    r = hn::IfThenElse(near, hn::Sub(LogGamma(d, x), main), r);
  }
  return r;
}
// log B(a, b) of positive numbers, without the cancellation of large logarithms of gamma functions.
template <class D, class V>
HWY_NOINLINE V LogBeta(D d, V a, V b) {
  const V half = hn::Set(d, 0.5), one = hn::Set(d, 1.0), most = hn::Set(d, 1e306);
  const V low = hn::Min(a, b), high = hn::Min(most, hn::Max(a, b)), sum = hn::Add(low, high), part = hn::Div(low, sum);
  const V log_low = LogOf(d, low), log_high = LogOf(d, high), log_sum = LogOf(d, sum);
  V log_part = hn::Sub(log_low, log_sum);
  if (!hn::AllTrue(d, hn::Lt(low, one))) log_part = hn::IfThenElse(hn::Lt(low, one), log_part, LogOf(d, part));
  const V rests =
      hn::Sub(hn::Add(StirlingRest(d, low, log_low), StirlingRest(d, high, log_high)), StirlingRest(d, sum, log_sum));
  const V powers = hn::MulAdd(hn::Sub(low, half), log_part, hn::Mul(hn::Sub(high, half), Log1pOf(d, hn::Neg(part))));
  const V r = hn::Add(hn::Add(powers, hn::NegMulAdd(half, log_sum, rests)), hn::Set(d, kHalfLogTwoPi));
  // Max and Min lose a nan.
  return hn::Add(r, hn::IfThenZeroElse(hn::Eq(a, a), a));
}

template <class D, class V>
HWY_NOINLINE V Digamma(D d, V x) {
  return math::DigammaOf<false>(d, x);
}
// a + log Gamma(a) + (1 - a) digamma(a), the entropy of gamma numbers; large ones by its asymptotic series.
template <class D, class V>
HWY_NOINLINE V GammaEntropy(D d, V a) {
  const V one = hn::Set(d, 1.0);
  V r = hn::MulAdd(hn::Sub(one, a), Digamma(d, a), hn::Add(a, LogGamma(d, a)));
  const auto large = hn::Gt(a, hn::Set(d, 500.0));
  if (!hn::AllFalse(d, large)) {
    constexpr double kC[] = {kHalfLogTwoPi + 0.5, -1.0 / 3, -1.0 / 12, -1.0 / 90, 1.0 / 120};
    const V series = math::Polynomial(d, hn::Div(one, a), kC);
    r = hn::IfThenElse(large, hn::MulAdd(LogOf(d, a), hn::Set(d, 0.5), series), r);
  }
  return r;
}
// I0(x) e^-|x|: its polynomials are those of the function without the power. Devices take the series: those are no
// tables of theirs.
template <class D, class V>
HWY_NOINLINE V ScaledBesselI0(D d, V x) {
  if constexpr (std::is_same_v<V, double>) {
    return scalar::i0e(x);
  } else {
    using F = math::BesselI0;
    const V one = hn::Set(d, 1.0), a = hn::Abs(x), edge = hn::Set(d, 7.75), near = hn::Min(a, edge),
            half = hn::Mul(near, hn::Set(d, 0.5)), z = hn::Mul(half, half), t = hn::Div(one, hn::Max(edge, a));
    const V small = hn::Mul(hn::MulAdd(z, math::Polynomial(d, z, F::kNear), one), ExpOf(d, hn::Neg(near))),
            large = hn::Mul(hn::Sqrt(t), math::Polynomial(d, hn::MulSub(t, hn::Set(d, 15.5), one), F::kFar));
    return hn::IfThenElse(hn::Eq(x, x), hn::IfThenElse(hn::Gt(a, edge), large, small), x);
  }
}

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
