// The modified Bessel functions of orders 0 and 1 on vectors, with and without the factor e^-|x|: those of float32 in
// float32. Included inside foreach_target.h's passes.
#if defined(TESSERA_TENSOR_CPU_MATH_BESSEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_MATH_BESSEL_INL_H_
#undef TESSERA_TENSOR_CPU_MATH_BESSEL_INL_H_
#else
#define TESSERA_TENSOR_CPU_MATH_BESSEL_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/math/math_trig-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace math {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// How tables of pieces are read: they have as many columns as one instruction chooses from.
struct FloatBessel {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using Index = hn::Vec<hn::RebindToUnsigned<D>>;
#if HWY_TARGET == HWY_AVX3
  static constexpr size_t kColumns = 16;
  static constexpr float kShift = 0.875f;
  static constexpr int kBits = 21;
  static HWY_INLINE V entry(const float (&row)[16], Index column) {
    return V{_mm512_permutexvar_ps(column.raw, _mm512_load_ps(row))};
  }
#else
  static constexpr size_t kColumns = 8;
  static constexpr float kShift = 0.75f;
  static constexpr int kBits = 22;
  static HWY_INLINE V entry(const float (&row)[8], Index column) { return EntryOf8(row, column); }
#endif
  template <int kOrder>
  static constexpr const auto& far() {
    if constexpr (kOrder == 0)
      return tables::kScaledI0Far;
    else
      return tables::kScaledI1Far;
  }
  template <int kOrder>
  static constexpr const auto& rows() {
#if HWY_TARGET == HWY_AVX3
    if constexpr (kOrder == 0)
      return tables::kScaledI0By16;
    else
      return tables::kScaledI1By16;
#else
    if constexpr (kOrder == 0)
      return tables::kScaledI0By8;
    else
      return tables::kScaledI1By8;
#endif
  }
};
constexpr float kFarBessel = 11.25f;

template <size_t kRow, size_t N, size_t kColumns, class V>
HWY_INLINE V BesselSteps(const float (&rows)[N][kColumns], FloatBessel::Index column, V t, V r) {
  if constexpr (kRow < 4)
    return r;
  else
    return BesselSteps<kRow - 1>(rows, column, t, hn::MulAdd(r, t, FloatBessel::entry(rows[kRow], column)));
}

// e^-a I0(a), or e^-a I1(a) / a, for 0 <= a < kFarBessel. A shifted number's exponent and leading bits are the piece's.
template <int kOrder, class D, class V>
HWY_INLINE Two<V> NearScaledI(D d, V a) {
  const auto& rows = FloatBessel::rows<kOrder>();
  constexpr size_t kLast = sizeof(rows) / sizeof(rows[0]) - 1;
  const auto column = hn::ShiftRight<FloatBessel::kBits>(
      hn::BitCast(hn::RebindToUnsigned<D>(), hn::Add(a, hn::Set(d, FloatBessel::kShift))));
  const auto entry = [&](size_t row) HWY_ATTR { return FloatBessel::entry(rows[row], column); };
  const V t = hn::Sub(a, entry(0));
  return LeadingTerms(d, entry(1), entry(2), entry(3), BesselSteps<kLast - 1>(rows, column, t, entry(kLast)), t);
}
// e^-a I(a) for a >= kFarBessel, infinity too: 1 / sqrt(a) as a sum, times a polynomial in 1 / a.
template <int kOrder, class D, class V>
HWY_NOINLINE Two<V> FarScaledI(D d, V a) {
  constexpr auto& c = FloatBessel::far<kOrder>();
  const V one = hn::Set(d, 1.0f), y = hn::Div(one, hn::Sqrt(a)), h = hn::Mul(a, y);
  const V miss = hn::IfThenElseZero(hn::Lt(a, hn::Inf(d)),  // 1 - a y^2
                                    hn::NegMulAdd(hn::MulSub(a, y, h), y, hn::NegMulAdd(h, y, one)));
  const V square = hn::Mul(y, y), t = hn::MulAdd(square, miss, square);
  constexpr int kLast = sizeof(c) / sizeof(float) - 1;  // c[0] and c[1] are what c[2] and c[3] are rounded by
  V p = hn::Set(d, c[kLast]);
  for (int i = kLast - 1; i > 3; --i) p = hn::MulAdd(p, t, hn::Set(d, c[i]));
  p = hn::MulAdd(hn::MulAdd(p, t, hn::Set(d, c[1])), t, hn::Set(d, c[0]));
  const V first = hn::Set(d, c[2]), slope = hn::Set(d, c[3]), value = hn::MulAdd(slope, t, first),
          rest = hn::Add(hn::MulAdd(slope, t, hn::Sub(first, value)), p);
  const V high = hn::Mul(y, value), half = hn::Mul(value, hn::Set(d, 0.5f)),
          low = hn::MulAdd(hn::Mul(y, miss), half, hn::MulAdd(y, rest, hn::MulSub(y, value, high)));
  return {high, low};
}

// e^-|x| I(x).
template <int kOrder, class D, class V>
HWY_INLINE V ScaledIOfFloat(D d, V x) {
  const V a = hn::Abs(x);
  const auto near = hn::Lt(a, hn::Set(d, kFarBessel));
  const Two<V> f = NearScaledI<kOrder>(d, a);
  const V r = kOrder == 0 ? hn::Add(f.hi, f.lo) : hn::MulAdd(x, f.hi, hn::Mul(x, f.lo));
  if (HWY_LIKELY(hn::AllTrue(d, near))) return r;
  const V far = Rounded(FarScaledI<kOrder>(d, a));
  return hn::IfThenElse(near, r, kOrder == 0 ? far : hn::Xor(far, hn::And(x, hn::SignBit(d))));
}
template <int kOrder, class D, class V>
HWY_INLINE V IOfFloat(D d, V x) {
  const V all = hn::Abs(x), a = hn::Min(hn::Set(d, 100.0f), all);  // infinite from 92 on; a nan stays
  const auto near = hn::Lt(a, hn::Set(d, kFarBessel));
  Two<V> f = NearScaledI<kOrder>(d, a);
  if constexpr (kOrder == 1) f = {hn::Mul(a, f.hi), hn::MulAdd(a, f.lo, hn::MulSub(a, f.hi, hn::Mul(a, f.hi)))};
  if (HWY_UNLIKELY(!hn::AllTrue(d, near))) f = Choose(near, f, FarScaledI<kOrder>(d, a));
  V n;
  Two<V> e = ExpOfFloatTwo(d, a, hn::Zero(d), n);
  e = FastSum(e.hi, e.lo), f = FastSum(f.hi, f.lo);
  const V high = hn::Mul(e.hi, f.hi),
          low = hn::MulAdd(e.hi, f.lo, hn::MulAdd(e.lo, f.hi, hn::MulSub(e.hi, f.hi, high)));
  V r = ScaleByPower(d, hn::Add(high, low), n);
  r = hn::Add(r, hn::Sub(all, all));  // nan for nans and, like PyTorch's, for infinities
  return kOrder == 0 ? r : hn::Xor(r, hn::And(x, hn::SignBit(d)));
}
#endif

template <int kOrder, class D, class V>
HWY_INLINE V BesselI(D d, V x) {
  using F = std::conditional_t<kOrder == 0, BesselI0, BesselI1>;
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return BesselI<F>(d, x);
  } else {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    if constexpr (hn::MaxLanes(D()) == FloatBessel::kColumns) return IOfFloat<kOrder>(d, x);
#endif
    return InDouble(d, TESSERA_IN_DOUBLE(BesselI<F>), x);
  }
}
template <class D, class V>
HWY_INLINE V I0(D d, V x) {
  return BesselI<0>(d, x);
}
template <class D, class V>
HWY_INLINE V I1(D d, V x) {
  return BesselI<1>(d, x);
}

}  // namespace math
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
