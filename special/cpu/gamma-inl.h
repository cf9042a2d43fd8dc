// The zeta function and the incomplete gamma functions. Included inside foreach_target.h's passes, and by device code
// (tensor/cuda/one_lane).
#if defined(TESSERA_SPECIAL_CPU_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_GAMMA_INL_H_
#undef TESSERA_SPECIAL_CPU_GAMMA_INL_H_
#else
#define TESSERA_SPECIAL_CPU_GAMMA_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "special/cpu/pieces-inl.h"
#include "tensor/cpu/math/series.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

template <class D, class V>
HWY_NOINLINE V HurwitzZeta(D d, V s, V q) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), inf = hn::Inf(d);
  const auto regular = hn::And(hn::And(hn::Gt(s, one), hn::Gt(q, zero)), hn::And(hn::Lt(s, inf), hn::Lt(q, inf)));
  const V s0 = hn::IfThenElse(regular, s, hn::Set(d, 2.0)),
          q0 = hn::Max(hn::Set(d, 2.3e-308), hn::IfThenElse(regular, q, one));
  V r;
  if constexpr (kForFloat<D>)
    r = math::ZetaOf(d, s0, q0, [](auto dd, auto v, auto w) HWY_ATTR { return math::BriefPowerOfPositive(dd, v, w); });
  else
    r = math::ZetaDouble(d, s0, q0);
  if (HWY_UNLIKELY(!hn::AllTrue(d, regular))) {
    const V other = math::PerLane(d, hn::IfThenElse(regular, one, s), q, [](double v, double w) HWY_ATTR {
      return v == std::numeric_limits<double>::infinity() && w > 0 ? (w < 1    ? v
                                                                      : w == 1 ? 1.0
                                                                               : 0.0)
                                                                   : scalar::zeta(v, w);
    });
    r = hn::IfThenElse(regular, r, other);
  }
  return r;
}

// x^a e^-x / Gamma(a + 1) = factor e^exponent, for positive finite a and x: with Stirling's series at b, which is a, or
// a + 8 where a is below 8 (NIST DLMF 5.5.1 and 5.11.1).
template <class D, class V>
HWY_NOINLINE Two<V> GammaTerm(D d, V a, V x, V& factor) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), eight = hn::Set(d, 8.0);
  const auto small = hn::Lt(a, eight);
  const Two<V> b = math::Sum(a, hn::IfThenElseZero(small, eight));
  const V inverse = hn::Div(one, b.hi), t = hn::Mul(eight, inverse),
          rest = hn::Mul(inverse, math::Polynomial(d, hn::Mul(t, t), tables::kLogGammaRest));
  factor = hn::Div(hn::Set(d, 0.3989422804014327), hn::Sqrt(b.hi));  // 1 / sqrt(2 pi b)
  if (!hn::AllFalse(d, small)) {
    V product = hn::NegMulAdd(hn::Mul(b.lo, hn::Set(d, 7.5)), inverse, one);
    for (int i = 1; i < 8; ++i) product = hn::Mul(product, hn::Mul(hn::Add(a, hn::Set(d, i)), inverse));
    factor = hn::IfThenElse(small, hn::Mul(factor, product), factor);
  }
  if constexpr (kForFloat<D>) {
    const V power = hn::Mul(a, LogOf(d, hn::Div(x, b.hi)));
    return {hn::Add(power, hn::Sub(hn::Add(hn::Sub(b.hi, x), b.lo), rest)), zero};
  }
  const auto tiny = hn::Lt(x, hn::Set(d, 1e-290));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p108)), x);
  Two<V> ratio = math::Quotient(d, Two<V>{scaled, zero}, b);
  const auto normal = hn::Gt(ratio.hi, hn::Set(d, 1e-300));
  ratio = math::Choose(normal, ratio, Two<V>{hn::Set(d, 1e-300), zero});
  const Two<V> log =
      math::JoinLog(d, math::SplitLog<true, true>(d, ratio.hi, ratio.lo, hn::IfThenElseZero(tiny, hn::Set(d, -108.0))));
  const Two<V> power = math::Product(d, Two<V>{a, zero}, log), distance = math::Sum(b.hi, hn::Neg(x)),
               sum = math::Sum(power.hi, distance.hi);
  return math::Sum(sum.hi, hn::Add(sum.lo, hn::Sub(hn::Add(power.lo, hn::Add(distance.lo, b.lo)), rest)));
}

// sum over n of x^n / ((a + 1) ... (a + n)) (DLMF 8.7.1), x not much above a, or below about 1. Eight terms have one
// denominator: x^n + x^(n - 1) (a + n) + ..., by Horner's rule.
template <class D, class V>
HWY_NOINLINE V LowerSeries(D d, V a, V x) {
  const V one = hn::Set(d, 1.0), enough = hn::Set(d, kForFloat<D> ? 1e-10 : 1e-17),
          most = hn::Set(d, 1e30);  // beyond, the power before the sum is 0
  V sum = one, term = one, below = hn::Min(most, a);
  x = hn::Min(most, x);
  for (int n = 0; n < 1000; n += 8) {
    V above = hn::Zero(d), under = one, power = one;
    for (int i = 0; i < 8; ++i) {
      below = hn::Add(below, one);
      under = hn::Mul(under, below);
      power = hn::Mul(power, x);
      above = hn::MulAdd(above, below, power);
    }
    const V scale = hn::Div(term, under);
    sum = hn::MulAdd(above, scale, sum);
    term = hn::Mul(power, scale);
    if (hn::AllTrue(d, hn::Le(term, hn::Mul(sum, enough)))) break;
  }
  return sum;
}
// Gamma(a, x) / (x^a e^-x) by its continued fraction (DLMF 8.9.2, its even part) from below, x above a and 1. Its error
// falls as e^(-4 sqrt(n x)) where a is small; a larger one delays that.
template <class D, class V>
HWY_NOINLINE V UpperFraction(D d, V a, V x) {
  const double least = hn::GetLane(hn::MinOfLanes(d, x)),
               delay = hn::GetLane(hn::MaxOfLanes(d, hn::Min(a, hn::Set(d, 20.0))));
  const int terms = static_cast<int>((kForFloat<D> ? 32 : 110) / least + 1.5 * delay) + (kForFloat<D> ? 6 : 12);
  const V one = hn::Set(d, 1.0), two = hn::Set(d, 2.0);
  const V most = hn::Set(d, 1e15);  // beyond, the power before the fraction is 0
  a = hn::Min(most, a), x = hn::Min(most, x);
  // The fraction's value is now / before, which grow together.
  V b = hn::Add(hn::Sub(x, a), hn::Set(d, 2.0 * terms + 1)), n = hn::Set(d, static_cast<double>(terms)), now = b,
    before = one;
  for (int k = terms; k > 0; --k) {
    if (k % 16 == 0) before = hn::Div(before, now), now = one;
    b = hn::Sub(b, two);
    const V next = hn::MulAdd(b, now, hn::Mul(hn::Mul(n, hn::Sub(a, n)), before));
    before = now, now = next;
    n = hn::Sub(n, one);
  }
  return hn::Div(before, now);
}
// Q for small a and x, where 1 - P would cancel: 1 - x^a / Gamma(a + 1), and the other terms of the alternating series
// (DLMF 8.7.3).
template <class D, class V>
HWY_NOINLINE V UpperOfSmall(D d, V a, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const V exponent = hn::Mul(a, hn::Sub(LogOf(d, x), ByPieces<7>(d, TESSERA_PIECES(kLogGammaNear), 0, 0.125, a)));
  V first;
  if constexpr (kForFloat<D>) {
    V p;
    const V s = math::BriefExp(d, hn::Max(hn::Set(d, -700.0), exponent), p);
    first = hn::MulAdd(s, p, hn::Sub(s, one));
  } else {
    first = math::Expm1(d, exponent);
  }
  V above = zero, under = one, term = one, below = a;  // all terms have one denominator
  for (int n = 1; n <= (kForFloat<D> ? 13 : 20); ++n) {
    term = hn::Mul(term, hn::Mul(x, hn::Set(d, -1.0 / n)));
    below = hn::Add(below, one);
    above = hn::MulAdd(above, below, hn::Mul(term, under));
    under = hn::Mul(under, below);
  }
  const V sum = hn::Div(above, under);
  return hn::NegMulAdd(hn::Mul(hn::Add(first, one), a), sum, hn::Neg(first));
}

#define TESSERA_TEMME_TERMS(X) X(10) X(9) X(8) X(7) X(6) X(5) X(4) X(3) X(2) X(1) X(0)
// For a above 20 and x within 30 % of it, the smaller one of P (x < a) and Q by the uniform expansion (DLMF 8.12.3 and
// 8.12.4), with m = x / a - 1.
template <class D, class V>
HWY_NOINLINE V NearTransition(D d, V a, V m, Two<V> exponent) {
  const V zero = hn::Zero(d), half = hn::Set(d, 0.5), one = hn::Set(d, 1.0);
  const V w = ByPieces<6>(d, TESSERA_PIECES(kLogRest), -0.3125, 0.0390625, m), phi = hn::Mul(hn::Mul(m, m), w),
          eta = hn::Mul(m, hn::Sqrt(hn::Add(w, w))), inverse = hn::Div(one, a);
  V c = hn::Set(d, tables::kTemme11[0]);
#define TESSERA_TERM(k) c = hn::MulAdd(c, inverse, math::Polynomial(d, eta, tables::kTemme##k));
  TESSERA_TEMME_TERMS(TESSERA_TERM)
#undef TESSERA_TERM
  c = hn::IfThenElse(hn::Lt(m, zero), hn::Neg(c), c);
  const V square = hn::Mul(a, phi),
          scaled = math::Rounded(math::ScaledErfc(d, hn::Min(hn::Set(d, 28.0), hn::Sqrt(square)), zero));
  const V root = hn::Div(hn::Set(d, 0.3989422804014327), hn::Sqrt(a));
  // e^(-a phi) is the exponent but for the rest of Stirling's series, as long as that does not cancel.
  const auto large = hn::Gt(a, hn::Set(d, 1e4));
  const V t = hn::Mul(hn::Set(d, 8.0), inverse),
          rest = hn::Mul(inverse, math::Polynomial(d, hn::Mul(t, t), tables::kLogGammaRest));
  const Two<V> power = math::Sum(hn::IfThenElse(large, hn::Neg(square), exponent.hi),
                                 hn::IfThenElse(large, zero, hn::Add(exponent.lo, rest)));
  return TimesExp(d, hn::MulAdd(root, c, hn::Mul(half, scaled)), power.hi, power.lo);
}
#undef TESSERA_TEMME_TERMS

// P(a, x), or Q if kUpper.
template <bool kUpper, class D, class V>
HWY_NOINLINE V IncompleteGamma(D d, V a, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), inf = hn::Inf(d), most = hn::Set(d, 1e300);
  const auto regular = hn::And(hn::And(hn::Gt(a, zero), hn::Gt(x, zero)), hn::And(hn::Lt(a, most), hn::Lt(x, most)));
  const V a0 = a, x0 = x;
  a = hn::IfThenElse(regular, a, one), x = hn::IfThenElse(regular, x, one);
  V factor;
  const Two<V> exponent = GammaTerm(d, a, x, factor);
  const V m = hn::Div(hn::Sub(x, a), a);
  const auto near = hn::And(hn::Gt(a, hn::Set(d, 20.0)), hn::Lt(hn::Abs(m), hn::Set(d, 0.3)));
  // Where P is not small beside 1, Q of small arguments has a series of its own.
  const auto below_half = hn::Le(x, hn::Set(d, 0.5));
  const V bound = hn::IfThenElse(below_half, hn::Div(hn::Set(d, -0.4), LogOf(d, hn::Min(x, hn::Set(d, 0.5)))),
                                 hn::Mul(x, hn::Set(d, 1.1)));
  auto small = hn::And(hn::Le(x, hn::Set(d, 1.1)), hn::Le(a, bound));
  if constexpr (!kUpper) small = hn::And(small, hn::Gt(x, one));
  // A little above a the sum of P is still the more accurate.
  const V reach =
      kUpper ? hn::IfThenElseZero(hn::Gt(a, hn::Set(d, 2.0)), hn::Mul(hn::Sqrt(a), hn::Set(d, 0.5))) : hn::Sqrt(a);
  const auto lower = hn::AndNot(small, hn::AndNot(near, hn::Or(hn::Le(x, one), hn::Le(x, hn::Add(a, reach))))),
             upper = hn::Not(hn::Or(hn::Or(near, small), lower));
  V sum = zero;
  if (!hn::AllFalse(d, lower)) sum = LowerSeries(d, hn::IfThenElse(lower, a, one), hn::IfThenElseZero(lower, x));
  if (!hn::AllFalse(d, upper)) {
    const V far = hn::Set(d, 1e15);  // needs no terms
    const V fraction = UpperFraction(d, hn::IfThenElse(upper, a, one), hn::IfThenElse(upper, x, far));
    sum = hn::IfThenElse(upper, hn::Mul(a, fraction), sum);
  }
  V p = TimesExp(d, hn::Mul(factor, sum), exponent.hi, exponent.lo), q = p;  // one of them is known
  if (!hn::AllFalse(d, small))
    q = hn::IfThenElse(small, UpperOfSmall(d, hn::IfThenElse(small, a, one), hn::IfThenElse(small, x, one)), q);
  auto have_p = lower;
  if (!hn::AllFalse(d, near)) {
    const V smaller =
        NearTransition(d, hn::IfThenElse(near, a, hn::Set(d, 30.0)), hn::IfThenElseZero(near, m), exponent);
    const auto below = hn::And(near, hn::Lt(m, zero));
    p = hn::IfThenElse(below, smaller, p);
    q = hn::IfThenElse(hn::AndNot(below, near), smaller, q);
    have_p = hn::Or(have_p, below);
  }
  V r = kUpper ? hn::IfThenElse(have_p, hn::Sub(one, p), q) : hn::IfThenElse(have_p, p, hn::Sub(one, q));
  r = hn::Min(one, hn::Max(zero, r));
  if (HWY_LIKELY(hn::AllTrue(d, regular))) return r;
  // P is 1 for a = 0 or x beyond everything, 0 for x = 0 or a beyond everything, nan where both hold or one is
  // negative.
  const auto bad =
      hn::Or(hn::Not(hn::And(hn::Ge(a0, zero), hn::Ge(x0, zero))),
             hn::Or(hn::And(hn::Eq(a0, zero), hn::Eq(x0, zero)), hn::And(hn::Eq(a0, inf), hn::Eq(x0, inf))));
  const auto is_one = hn::Or(hn::Eq(a0, zero), hn::Gt(x0, a0));
  const V edge = hn::IfThenElse(is_one, kUpper ? zero : one, kUpper ? one : zero);
  return hn::IfThenElse(regular, r, hn::IfThenElse(bad, hn::NaN(d), edge));
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, functor, inputs, what it computes, dtypes): see kernels-inl.h.
// clang-format off
#define TESSERA_GAMMA_OPS(X) \
  X(zeta, Zeta, 2, HurwitzZeta, SINGLE_AND_DOUBLE) \
  X(igamma, Igamma, 2, IncompleteGamma<false>, FLOATS_ALONE) \
  X(igammac, Igammac, 2, IncompleteGamma<true>, FLOATS_ALONE)
// clang-format on

#endif  // per-target include guard
