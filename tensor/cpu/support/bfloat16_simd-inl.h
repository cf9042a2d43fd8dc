// Rounding to bfloat16, for one SIMD target (included inside foreach_target).
#if defined(TENSOR_CPU_SUPPORT_BFLOAT16_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_SUPPORT_BFLOAT16_SIMD_INL_H_
#undef TENSOR_CPU_SUPPORT_BFLOAT16_SIMD_INL_H_
#else
#define TENSOR_CPU_SUPPORT_BFLOAT16_SIMD_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RoundedFrom = hn::ScalableTag<float>;
using RoundedBits = hn::RebindToUnsigned<RoundedFrom>;

// Rounded to bfloat16, in the upper half of each lane, but for nans.
HWY_INLINE hn::Vec<RoundedBits> RoundToBfloat16(hn::Vec<RoundedFrom> v) {
  const RoundedBits du;
  const auto x = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(x), hn::Set(du, 1));
  return hn::Add(hn::Add(x, hn::Set(du, 0x7fff)), odd);
}
// A nan keeps its upper bits and becomes quiet.
HWY_INLINE hn::Vec<RoundedBits> WithNans(hn::Vec<RoundedFrom> v, hn::Vec<RoundedBits> rounded) {
  const RoundedBits du;
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Or(hn::BitCast(du, v), hn::Set(du, 0x400000)), rounded);
}
// Two vectors as one of bfloat16.
HWY_INLINE hn::Vec<hn::ScalableTag<uint16_t>> RoundTwo(hn::Vec<RoundedFrom> a, hn::Vec<RoundedFrom> b) {
  const RoundedFrom d;
  const hn::ScalableTag<uint16_t> du16;
  auto low = RoundToBfloat16(a), high = RoundToBfloat16(b);
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(a, b))))) low = WithNans(a, low), high = WithNans(b, high);
  return hn::ConcatOdd(du16, hn::BitCast(du16, high), hn::BitCast(du16, low));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
