// The logarithm of the gamma function and its derivative on vectors, float32 and float64. Included inside
// foreach_target.h's passes.
#if defined(TESSERA_TENSOR_CPU_MATH_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_GAMMA_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_GAMMA_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_GAMMA_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/math/math_trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {

// Where y, or 1 + y if `next`, lies among the pieces of 1/2 .. 8: the number of the piece and the distance from its
// middle.
template <class D, class V, class M>
HWY_INLINE V GammaPiece(D d, V y, M next, hn::Vec<hn::RebindToUnsigned<D>>& piece) {
  const hn::RebindToUnsigned<D> du;
  const V one = hn::IfThenElseZero(next, hn::Set(d, 1.0));
  piece = hn::ShiftRight<50>(hn::BitCast(du, hn::Add(y, one)));
  const V middle = hn::BitCast(d, hn::Or(hn::ShiftLeft<50>(piece), hn::Set(du, uint64_t{1} << 49)));
  return hn::Sub(y, hn::Sub(middle, one));
}
// log |Gamma(x)| is (x - 1) (x - 2) times a function by pieces from 1/2 to 8, where the factors keep the digits next to
// its zeros; that of x + 1 less log |x| around 0; Stirling's series from 8 on. Below, log(pi / |x sin(pi x)|) less that
// of -x (NIST DLMF 5.5.3); what nearly cancels there is computed by the C library.
constexpr double kLogPi = 1.1447298858494002, kLogPiRest = 1.0265951162707826e-17;
constexpr double kHalfLog2Pi = 0.91893853320467278, kHalfLog2PiRest = -3.878294158067242e-17;
HWY_INLINE double LgammaOfOne(double x) {
#if defined(__CUDACC__) || TESSERA_CUDA_EMULATED
  return ::lgamma(x);
#else
  return scalar::lgamma(x);  // safe beside other threads
#endif
}
template <class D, class V, class M>
HWY_INLINE V LgammaEnds(D d, V x, V r, M pole) {
  r = hn::Add(r, hn::Zero(d));  // at 1 and 2 the factors give -0
  r = hn::IfThenElse(hn::Or(pole, hn::Eq(hn::Abs(x), hn::Inf(d))), hn::Inf(d), r);
  return hn::IfThenElse(hn::IsNaN(x), x, r);
}
template <class D, class V>
HWY_NOINLINE V BriefLgamma(D d, V x) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), a = hn::Abs(x), half = hn::Set(d, 0.5);
  const auto small = hn::Lt(a, half), far = hn::Ge(a, hn::Set(d, 8.0)), below = hn::Le(x, hn::Neg(half)),
             with_log = hn::Or(hn::Or(small, far), below);
  const V y = hn::IfThenElse(small, x, a), first = hn::IfThenElse(small, x, hn::Sub(a, one));
  hn::Vec<hn::RebindToUnsigned<D>> piece;
  const V t = GammaPiece(d, hn::IfThenElse(far, one, y), small, piece);
  V r = hn::Mul(hn::Mul(first, hn::Sub(first, one)), BriefPiece<12>(d, TESSERA_PIECES(kLgamma64), piece, t));
  auto pole = hn::Eq(a, zero);
  if (hn::AllFalse(d, with_log)) return LgammaEnds(d, x, r, pole);
  // All digits: formulas of large numbers cancel them.
  const auto log_of = [&](V v) HWY_ATTR { return JoinLogBriefly(d, SplitLog<true, false>(d, v, zero, zero)); };
  const bool some_below = HWY_UNLIKELY(!hn::AllFalse(d, below));
  V mirror = one;  // |x sin(pi x)|
  if (some_below) {
    const V whole = hn::Round(a), part = hn::Mul(hn::Sub(a, whole), hn::Set(d, 3.14159265358979323846));
    const auto at_pole = hn::And(below, hn::Eq(a, whole));
    pole = hn::Or(pole, at_pole);
    mirror = hn::IfThenElse(at_pole, one, hn::Mul(a, hn::Abs(BriefSin<0>(d, part))));
  }
  const V limited = hn::Max(hn::Set(d, 1e-300), hn::Min(hn::Set(d, 1e300), a));
  V log = log_of(hn::IfThenElse(hn::AndNot(far, below), mirror, limited));
  r = hn::Sub(r, hn::IfThenElseZero(small, log));
  if (!hn::AllFalse(d, far)) {
    const V inverse = Inverse(d, limited);
    constexpr double kC[] = {0.0833333333333333, -0.002777777777606244, 0.0007936506649488252,
                             -0.0005952025951802712};  // to 1e-12
    const V series = hn::MulAdd(inverse, Polynomial(d, hn::Mul(inverse, inverse), kC), hn::Set(d, kHalfLog2Pi));
    r = hn::IfThenElse(far, hn::Add(hn::MulSub(hn::Sub(limited, half), log, limited), series), r);
  }
  if (some_below) {
    const auto both = hn::And(far, below);
    if (!hn::AllFalse(d, both)) log = hn::IfThenElse(both, log_of(mirror), log);
    const V reflected = hn::Sub(hn::Sub(hn::Set(d, kLogPi), log), r);
    const auto cancelled =
        hn::And(below, hn::Lt(hn::Abs(reflected), hn::Mul(hn::Set(d, 0.01), hn::Add(one, hn::Abs(r)))));
    r = SomeLanes(d, cancelled, x, hn::IfThenElse(below, reflected, r),
                  [](double v) HWY_ATTR { return LgammaOfOne(v); });
  }
  return LgammaEnds(d, x, r, pole);
}
// Stirling's series at a, of which `log` is the logarithm.
template <class D, class V>
TESSERA_MATH_PART Two<V> LgammaFar(D d, V a, Two<V> log) {
  const V one = hn::Set(d, 1.0), inverse = hn::Div(one, a);
  constexpr double kC[] = {0.08333333333333333,   -0.002777777777773982,  0.0007936507897492187, -0.0005952365838084739,
                           0.0008414700110573563, -0.0018903792026145536, 0.005065830821990134};  // to 7e-20
  const V series = hn::MulAdd(inverse, Polynomial(d, hn::Mul(inverse, inverse), kC), hn::Set(d, kHalfLog2PiRest));
  const Two<V> over = Sum(a, hn::Set(d, -0.5)), product = Product(d, over, log), less = Sum(product.hi, hn::Neg(a)),
               sum = Sum(less.hi, hn::Set(d, kHalfLog2Pi));
  const Two<V> slope = FastSum(log.hi, hn::Neg(one));  // x (log x - 1) where x log x may be infinite
  const auto enormous = hn::Gt(a, hn::Set(d, 1e280));
  const V beyond = hn::MulAdd(a, slope.hi, hn::Mul(a, hn::Add(slope.lo, log.lo)));
  const V low = hn::Add(hn::Add(product.lo, less.lo), hn::Add(sum.lo, series));
  return {hn::IfThenElse(enormous, beyond, sum.hi), hn::IfThenZeroElse(enormous, low)};
}
// |x sin(pi x)| for a = |x|, 1 at the poles.
template <class D, class V, class M>
TESSERA_MATH_PART Two<V> LgammaMirror(D d, V a, M& pole) {
  const V whole = hn::Round(a), part = hn::Sub(a, whole), zero = hn::Zero(d);
  pole = hn::Eq(a, whole);
  const Two<V> angle = Product(d, part, hn::Set(d, 3.14159265358979312));
  Two<V> sine, cosine;
  SinAndCosTwo(d, angle.hi, sine, cosine);
  sine.lo = hn::MulAdd(hn::MulAdd(part, hn::Set(d, 1.2246467991473532e-16), angle.lo), cosine.hi, sine.lo);
  const auto sign = hn::And(sine.hi, hn::SignBit(d));
  const V size = hn::Min(hn::Set(d, 1e100), a);  // from 2^52 on there are poles alone
  const Two<V> product = Product(d, Two<V>{size, zero}, Two<V>{hn::Xor(sine.hi, sign), hn::Xor(sine.lo, sign)});
  return Choose(pole, Two<V>{hn::Set(d, 1.0), zero}, product);
}
template <class D, class V>
HWY_NOINLINE V LgammaDouble(D d, V x) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), a = hn::Abs(x), half = hn::Set(d, 0.5);
  const auto small = hn::Lt(a, half), far = hn::Ge(a, hn::Set(d, 8.0)), below = hn::Le(x, hn::Neg(half)),
             with_log = hn::Or(hn::Or(small, far), below);
  const V y = hn::IfThenElse(small, x, a), first = hn::IfThenElse(small, x, hn::Sub(a, one));
  hn::Vec<hn::RebindToUnsigned<D>> piece;
  const V t = GammaPiece(d, hn::IfThenElse(far, one, y), small, piece);
  const Two<V> second = Sum(first, hn::Neg(one)), factors = Product(d, first, second.hi);
  Two<V> r = Product(d, Two<V>{factors.hi, hn::MulAdd(first, second.lo, factors.lo)},
                     PieceTwo(d, TESSERA_PIECES(kLgamma64), piece, Two<V>{t, zero}));
  auto pole = hn::Eq(a, zero);
  if (hn::AllFalse(d, with_log)) return LgammaEnds(d, x, Rounded(r), pole);
  const bool some_below = HWY_UNLIKELY(!hn::AllFalse(d, below));
  Two<V> mirror = {one, zero};
  if (some_below) {
    auto at_pole = pole;
    mirror = LgammaMirror(d, a, at_pole);
    pole = hn::Or(pole, hn::And(below, at_pole));
  }
  const auto tiny = hn::And(small, hn::Lt(a, hn::Set(d, 1e-290)));
  const V limited = hn::Min(hn::Set(d, 1e308), a),
          scaled = hn::IfThenElse(tiny, hn::Mul(limited, hn::Set(d, 0x1p108)), limited);
  const Two<V> of = Choose(hn::AndNot(far, below), mirror, Two<V>{hn::IfThenElse(hn::Eq(a, zero), one, scaled), zero});
  Two<V> log = JoinLog(d, SplitLog<true, true>(d, of.hi, of.lo, hn::IfThenElseZero(tiny, hn::Set(d, -108.0))));
  const Two<V> around = Sum(r.hi, hn::Neg(log.hi));
  r = Choose(small, Two<V>{around.hi, hn::Add(around.lo, hn::Sub(r.lo, log.lo))}, r);
  if (!hn::AllFalse(d, far)) r = Choose(far, LgammaFar(d, hn::IfThenElse(far, limited, hn::Set(d, 8.0)), log), r);
  V result = Rounded(r);
  if (some_below) {
    const auto both = hn::And(far, below);
    if (!hn::AllFalse(d, both)) log = Choose(both, LogTwo(d, mirror), log);
    const Two<V> less = Sum(hn::Set(d, kLogPi), hn::Neg(log.hi)), sum = Sum(less.hi, hn::Neg(r.hi));
    const V reflected =
        hn::Add(sum.hi, hn::Add(hn::Add(sum.lo, less.lo), hn::Sub(hn::Set(d, kLogPiRest), hn::Add(log.lo, r.lo))));
    const auto cancelled =
        hn::And(below, hn::Lt(hn::Abs(reflected), hn::Mul(hn::Set(d, 0.015625), hn::Add(half, hn::Abs(r.hi)))));
    result = SomeLanes(d, hn::AndNot(pole, cancelled), x, hn::IfThenElse(below, reflected, result),
                       [](double v) HWY_ATTR { return LgammaOfOne(v); });
  }
  return LgammaEnds(d, x, result, pole);
}
template <class D, class V>
HWY_INLINE V Lgamma(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return InDouble(d, TESSERA_IN_DOUBLE(BriefLgamma), x);
  else
    return LgammaDouble(d, x);
}

// The derivative of log Gamma is its distance from the zero at 1.46 times a function by pieces from 1/2 to 8; that of x
// + 1 less 1 / x next to 0; the asymptotic series from 8 on; that of 1 - x less pi / tan(pi x) below 0 (DLMF 5.5.2,
// 5.5.4 and 5.11.2).
template <bool kBrief, class D, class V>
HWY_NOINLINE V DigammaOf(D d, V x) {
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d);
  const auto below = hn::Lt(x, zero);
  const V y = hn::IfThenElse(below, hn::Sub(one, x), x);
  const auto small = hn::Lt(y, hn::Set(d, 0.5)), far = hn::Ge(y, hn::Set(d, 8.0));
  hn::Vec<hn::RebindToUnsigned<D>> piece;
  const V limited = hn::IfThenElse(far, one, y), t = GammaPiece(d, limited, small, piece);
  const Two<V> above = Sum(limited, hn::IfThenElseZero(small, one)),
               zero_at = {hn::Set(d, -1.4616321449683622), hn::Set(d, -9.549995429965697e-17)},
               distance = Sum(above.hi, zero_at.hi);
  const V distance_low = hn::Add(distance.lo, hn::Add(above.lo, zero_at.lo));
  V r;
  if constexpr (kBrief) {
    r = hn::Mul(hn::Add(distance.hi, distance_low), BriefPiece<12>(d, TESSERA_PIECES(kDigamma64), piece, t));
  } else {
    const Two<V> product =
        Product(d, Two<V>{distance.hi, distance_low}, PieceTwo(d, TESSERA_PIECES(kDigamma64), piece, Two<V>{t, zero}));
    r = Rounded(product);
  }
  if (!hn::AllFalse(d, small)) r = hn::Sub(r, hn::IfThenElseZero(small, hn::Div(one, hn::IfThenElse(small, y, one))));
  if (!hn::AllFalse(d, far)) {
    const V from = hn::IfThenElse(far, hn::Min(hn::Set(d, 1.7976931348623157e308), y), hn::Set(d, 8.0)),
            inverse = hn::Div(one, from), w = hn::Mul(inverse, inverse);
    constexpr double kC[] = {0.08333333333333333,  -0.008333333333278636, 0.0039682539119537084, -0.0041666448230497,
                             0.007571689620283902, -0.020697987372370493, 0.06362150587634356};  // to 2e-19
    const V series = hn::MulAdd(inverse, hn::Set(d, 0.5), hn::Mul(w, Polynomial(d, w, kC)));
    V log;
    if constexpr (kBrief) {
      V k;
      const V part = BriefLog(d, from, zero, k);
      log = hn::MulAdd(k, hn::Set(d, 0.69314718055994530942), hn::Sub(part, series));
    } else {
      const Two<V> sum = LogTwo(d, Two<V>{from, zero});
      log = hn::Add(sum.hi, hn::Sub(sum.lo, series));
    }
    r = hn::IfThenElse(far, log, r);
  }
  const auto plain = hn::And(hn::Gt(y, zero), hn::Lt(y, hn::Inf(d)));
  r = hn::IfThenElse(plain, r, y);
  if (HWY_UNLIKELY(!hn::AllFalse(d, below))) {
    const V whole = hn::Round(x), pi = hn::Set(d, 3.14159265358979323846);
    V sine, cosine;
    SinAndCos(d, hn::Mul(hn::Sub(x, whole), pi), sine, cosine);
    const V reflected = hn::Sub(r, hn::Div(hn::Mul(pi, cosine), sine));
    r = hn::IfThenElse(below, hn::IfThenElse(hn::Eq(x, whole), hn::NaN(d), reflected), r);
  }
  const auto pole = hn::Lt(hn::Abs(x), hn::Set(d, 5.5e-309));  // or so near that -1 / x is infinite
  return hn::IfThenElse(pole, hn::CopySign(hn::Inf(d), hn::Neg(x)), r);
}
template <class D, class V>
HWY_INLINE V Digamma(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return InDouble(
        d, [](auto dd, auto v) HWY_ATTR { return DigammaOf<true>(dd, v); }, x);
  else
    return DigammaOf<false>(d, x);
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
