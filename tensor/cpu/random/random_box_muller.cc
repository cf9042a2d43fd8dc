// The operations, and which of them are fused, are those of the reference numbers: with AVX2 and beyond the same bits,
// without fused operations the same to rounding.
#include "tensor/cpu/random/random_box_muller.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random/random_box_muller.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::random_internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V Horner(D, V, V sum) {
  return sum;
}
template <class D, class V, class... C>
HWY_INLINE V Horner(D d, V x, V sum, float next, C... rest) {
  return Horner(d, x, hn::MulAdd(sum, x, hn::Set(d, next)), rest...);
}

// Natural logarithm of x in (0, 1]. Coefficients: S. Moshier, Cephes, logf.
template <class D, class V>
HWY_INLINE V LogOfUnit(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto exponent =
      hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));  // so that the mantissa lies in [sqrt(1/2), sqrt(2))
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent))), hn::Set(d, 1.0f));
  const V e = hn::ConvertTo(d, exponent);
  const V z = hn::Mul(f, f);
  V y = Horner(d, f, hn::Set(d, 7.0376836292e-2f), -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
               1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  y = hn::MulAdd(hn::Mul(y, f), z, hn::Mul(e, hn::Set(d, -2.12194440e-4f)));
  y = hn::NegMulAdd(z, hn::Set(d, 0.5f), y);
  return hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, y));
}

// Sine and cosine of x in [0, 2 pi]. Coefficients: Cephes, sinf and cosf.
template <class D, class V>
HWY_INLINE void SinCos(D d, V x, V& sine, V& cosine) {
  const hn::RebindToUnsigned<D> du;
  const V whole = hn::Set(d, 8388608.0f);  // leaves integers in the low bits
  const auto eighths =
      hn::BitCast(du, hn::Add(hn::Trunc(hn::Mul(x, hn::Set(d, 1.27323954473516f))), hn::Set(d, 8388609.0f)));
  const auto even = hn::AndNot(hn::Set(du, 1u), eighths);  // eighths of a turn, rounded to whole quarters
  const V k = hn::Sub(hn::BitCast(d, even), whole);
  V r = hn::NegMulAdd(k, hn::Set(d, 0.78515625f), x);
  r = hn::NegMulAdd(k, hn::Set(d, 2.4187564849853515625e-4f), r);
  r = hn::NegMulAdd(k, hn::Set(d, 3.77489497744594108e-8f), r);
  const V z = hn::Mul(r, r);
  const V s =
      hn::MulAdd(hn::Mul(Horner(d, z, hn::Set(d, -1.9515295891e-4f), 8.3321608736e-3f, -1.6666654611e-1f), z), r, r);
  const V p =
      hn::Mul(Horner(d, z, hn::Set(d, 2.443315711809948e-5f), -1.388731625493765e-3f, 4.166664568298827e-2f), z);
  const V c = hn::Add(hn::MulSub(p, z, hn::Mul(z, hn::Set(d, 0.5f))), hn::Set(d, 1.0f));
  const auto two = hn::Set(du, 2u), sign = hn::Set(du, 0x80000000u);
  const auto swap = hn::RebindMask(d, hn::TestBit(even, two));
  const auto signed_by = [&](V v, auto bits) HWY_ATTR {
    return hn::BitCast(d, hn::Xor(hn::BitCast(du, v), hn::And(hn::ShiftLeft<29>(bits), sign)));
  };
  sine = signed_by(hn::IfThenElse(swap, c, s), even);
  cosine = signed_by(hn::IfThenElse(swap, s, c), hn::Add(even, two));
}

template <class D, class V>
HWY_INLINE void BoxMuller(D d, V& x, V& y, V mean, V std) {
  const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), LogOfUnit(d, hn::Sub(hn::Set(d, 1.0f), x))));
  auto sine = hn::Zero(d), cosine = hn::Zero(d);
  SinCos(d, hn::Mul(hn::Set(d, 6.283185307179586f), y), sine, cosine);
  x = hn::MulAdd(hn::Mul(radius, cosine), std, mean);
  y = hn::MulAdd(hn::Mul(radius, sine), std, mean);
}

void BoxMullerBlocks(float* data, int64_t blocks, float mean, float std) {
  const hn::CappedTag<float, 8> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t b = 0;
#if HWY_TARGET == HWY_AVX3  // two blocks at a time
  const hn::ScalableTag<float> dd;
  for (; b + 2 <= blocks; b += 2, data += 32) {
    auto x = hn::Combine(dd, hn::LoadU(d, data + 16), hn::LoadU(d, data)),
         y = hn::Combine(dd, hn::LoadU(d, data + 24), hn::LoadU(d, data + 8));
    BoxMuller(dd, x, y, hn::Set(dd, mean), hn::Set(dd, std));
    hn::StoreU(hn::LowerHalf(d, x), d, data);
    hn::StoreU(hn::LowerHalf(d, y), d, data + 8);
    hn::StoreU(hn::UpperHalf(d, x), d, data + 16);
    hn::StoreU(hn::UpperHalf(d, y), d, data + 24);
  }
#endif
  for (; b < blocks; ++b, data += 16) {
    for (int64_t j = 0; j < 8; j += lanes) {
      auto x = hn::LoadU(d, data + j), y = hn::LoadU(d, data + j + 8);
      BoxMuller(d, x, y, hn::Set(d, mean), hn::Set(d, std));
      hn::StoreU(x, d, data + j);
      hn::StoreU(y, d, data + j + 8);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::random_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::random_internal {

TESSERA_SIMD_TABLE(BoxMullerBlocks);
void box_muller_blocks(float* data, int64_t blocks, float mean, float std) {
  TESSERA_SIMD(BoxMullerBlocks)(data, blocks, mean, std);
}

}  // namespace tessera::cpu::random_internal
#endif
