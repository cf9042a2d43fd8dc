// What the kernels of special functions share: functions by pieces, factors e^x, sines of large numbers. Included
// inside foreach_target.h's passes.
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
#include "tensor/cpu/pointwise/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {
using math::Two;

// The functions are computed in double, for float32 results as well. TESSERA_CORE(Name, kInputs, Core): the functor.
template <class D, class F, class... V>
HWY_INLINE hn::Vec<D> Doubly(D d, F f, V... x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return math::InDouble(d, f, x...);
  else
    return f(d, x...);
}
#define TESSERA_CORE(Name, Core)                                                         \
  struct Name {                                                                          \
    template <class D, class... V>                                                       \
    static HWY_INLINE hn::Vec<D> Call(D d, const KernelParam*, V... x) {                 \
      return special::Doubly(                                                            \
          d, [](auto dd, auto... v) HWY_ATTR { return special::Core(dd, v...); }, x...); \
    }                                                                                    \
  };

// A table of tools/special_tables at x: 16 pieces of a width from `low` on. Arguments outside take the nearest piece,
// whose polynomial says nothing there.
template <class D, class V, size_t N>
HWY_INLINE V ByPieces(D d, const double (&rows)[N][16], double low, double width, V x) {
  const V position = hn::MulAdd(x, hn::Set(d, 1 / width), hn::Set(d, -low / width - 0.5));
  const V shifted =
              hn::Add(hn::Min(hn::Set(d, 15.0), hn::Max(hn::Zero(d), position)), hn::Set(d, math::Fp<double>::kMagic)),
          number = math::Unshifted(d, shifted),
          t = hn::Sub(x, hn::MulAdd(number, hn::Set(d, width), hn::Set(d, low + width / 2)));
  return math::PieceRest(d, rows, hn::BitCast(hn::RebindToUnsigned<D>(), shifted), t,
                         std::make_index_sequence<N - 1>());
}

template <class D, class M>
HWY_INLINE bool Some(D d, M mask) {
  return HWY_LIKELY(!hn::AllFalse(d, mask));
}

// y e^(x + low), also where e^x alone would overflow or be subnormal.
template <class D, class V>
HWY_INLINE V TimesExp(D d, V y, V x, V low) {
  const V limit = hn::Set(d, 1000.0), limited = hn::Min(limit, hn::Max(hn::Neg(limit), x));
  V n;
  const Two<V> e = math::ExpTwo<true>(d, limited, hn::IfThenElseZero(hn::Eq(x, limited), low), n);
  return math::ScaleByPower(d, hn::MulAdd(e.hi, y, hn::Mul(e.lo, y)), n);
}

// Sine and cosine as sums; of arguments so large that few programs meet them, by the C library.
template <class D, class V>
HWY_INLINE void SinAndCosOfAny(D d, V x, Two<V>& sine, Two<V>& cosine) {
  const V limit = hn::Set(d, math::Fp<double>::kTrigLimit);
  const auto large = hn::Not(hn::Lt(x, limit));
  math::SinAndCosTwo(d, hn::Min(limit, x), sine, cosine);
  if (HWY_LIKELY(hn::AllFalse(d, large))) return;
  sine.hi = math::SomeLanes(d, large, x, sine.hi, [](double v) { return std::sin(v); });
  cosine.hi = math::SomeLanes(d, large, x, cosine.hi, [](double v) { return std::cos(v); });
  sine.lo = hn::IfThenZeroElse(large, sine.lo);
  cosine.lo = hn::IfThenZeroElse(large, cosine.lo);
}

}  // namespace special
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
