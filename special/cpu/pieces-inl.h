// What the special functions share: functions by pieces, factors e^x, sines of large numbers. Included inside
// foreach_target.h's passes, and by device code (tensor/cuda/one_lane).
#if defined(TESSERA_SPECIAL_CPU_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_PIECES_INL_H_
#undef TESSERA_SPECIAL_CPU_PIECES_INL_H_
#else
#define TESSERA_SPECIAL_CPU_PIECES_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"
#include "special/cpu/tables.h"
#include "tensor/cpu/math/math_trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {
namespace hn = hwy::HWY_NAMESPACE;
using math::Two;

// Functions are computed in double, for float32 results as well. The tag of vectors of doubles says which is meant: for
// float32, errors of 1e-9 are small.
template <class D>
struct ForFloat : D {};
template <class D>
inline constexpr bool kForFloat = false;
template <class D>
inline constexpr bool kForFloat<ForFloat<D>> = true;

// A table of tools/special_tables at x: 16 pieces of a width from `low` on. Arguments outside take the nearest piece,
// whose polynomial says nothing there. kFloatRows: as many of its rows are enough for float32.
template <int kFloatRows, class D, class R, class V>
HWY_INLINE V ByPieces(D d, const R& rows, double low, double width, V x) {
  using At = math::AtPiece<D, R>;
  const V position = hn::MulAdd(x, hn::Set(d, 1 / width), hn::Set(d, -low / width - 0.5));
  const V shifted =
              hn::Add(hn::Min(hn::Set(d, 15.0), hn::Max(hn::Zero(d), position)), hn::Set(d, math::Fp<double>::kMagic)),
          number = math::Unshifted(d, shifted),
          t = hn::Sub(x, hn::MulAdd(number, hn::Set(d, width), hn::Set(d, low + width / 2)));
  const At at(d, rows, hn::BitCast(hn::RebindToUnsigned<D>(), shifted));
  constexpr size_t kRows = kForFloat<D> ? kFloatRows : At::kCount;
  return math::PieceRest<0, kRows>(at, t);
}

template <class D, class M>
HWY_INLINE bool Some(D d, M mask) {
  return HWY_LIKELY(!hn::AllFalse(d, mask));
}

// log x of positive normal numbers and 0.
template <class D, class V>
HWY_INLINE V LogOf(D d, V x) {
  if constexpr (kForFloat<D>) {
    V k;
    const V log = math::BriefLog(d, x, hn::Zero(d), k), r = hn::MulAdd(k, hn::Set(d, 0.69314718055994530942), log);
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(hn::Inf(d)), r);
  } else {
    return math::Log(d, x);
  }
}

// y e^(x + low), also where e^x alone would overflow or be subnormal.
template <class D, class V>
HWY_INLINE V TimesExp(D d, V y, V x, V low) {
  if constexpr (kForFloat<D>) {  // whose range ends long before
    V p;
    const V s = math::BriefExp(d, hn::Min(hn::Set(d, 700.0), hn::Max(hn::Set(d, -700.0), hn::Add(x, low))), p);
    return hn::Mul(y, hn::MulAdd(s, p, s));
  } else {
    const V limit = hn::Set(d, 1000.0), limited = hn::Min(limit, hn::Max(hn::Neg(limit), x));
    V n;
    const Two<V> e = math::ExpTwo<true>(d, limited, hn::IfThenElseZero(hn::Eq(x, limited), low), n);
    return math::ScaleByPower(d, hn::MulAdd(e.hi, y, hn::Mul(e.lo, y)), n);
  }
}

// Sine and cosine as sums; of arguments so large that few programs meet them, by the C library.
template <class D, class V>
HWY_INLINE void SinAndCosOfAny(D d, V x, Two<V>& sine, Two<V>& cosine) {
  const V limit = hn::Set(d, math::Fp<double>::kTrigLimit);
  const auto large = hn::Not(hn::Lt(x, limit));
  if constexpr (kForFloat<D>) {
    const V limited = hn::Min(limit, x);
    sine = {math::BriefSin<0>(d, limited), hn::Zero(d)};
    cosine = {math::BriefSin<1>(d, limited), hn::Zero(d)};
  } else {
    math::SinAndCosTwo(d, hn::Min(limit, x), sine, cosine);
  }
  if (HWY_LIKELY(hn::AllFalse(d, large))) return;
  sine.hi = math::SomeLanes(d, large, x, sine.hi, [](double v) HWY_ATTR { return std::sin(v); });
  cosine.hi = math::SomeLanes(d, large, x, cosine.hi, [](double v) HWY_ATTR { return std::cos(v); });
  sine.lo = hn::IfThenZeroElse(large, sine.lo);
  cosine.lo = hn::IfThenZeroElse(large, cosine.lo);
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
