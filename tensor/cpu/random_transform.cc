#include "tensor/cpu/random_transform.h"

#include <cmath>

#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random_transform.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math_trig-inl.h"
#include "tensor/cpu/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::random_internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = ::tessera::cpu::HWY_NAMESPACE::math;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// Lanes that are left over are computed as scalars, in the same operations.
void UnitFloats(const uint32_t* words, int64_t n, int digits, float* v) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr int64_t kLanes = HWY_LANES(float);
  const int32_t mask = (1 << digits) - 1;
  const float scale = 1.0f / static_cast<float>(1 << digits);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto bits = hn::And(hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + i), hn::Set(di, mask));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, bits), hn::Set(d, scale)), d, v + i);
  }
  for (; i < n; ++i) v[i] = static_cast<float>(static_cast<int32_t>(words[i]) & mask) * scale;
}

// 53 bits are put together as 2^52 plus the low 52 and 2^52 or 2^53 for the highest: both differences are exact.
void UnitDoubles(const uint32_t* words, int64_t n, double* v) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  constexpr int64_t kLanes = HWY_LANES(double);
  constexpr uint64_t kLow = (uint64_t{1} << 52) - 1, kHigh = uint64_t{1} << 52;
  const auto low = hn::Set(du, kLow), high = hn::Set(du, kHigh), one = hn::BitCast(du, hn::Set(d, 0x1p52));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto pair = hn::LoadU(du, reinterpret_cast<const uint64_t*>(words + 2 * i));  // the high word lies first
    const auto x = hn::Or(hn::ShiftLeft<32>(pair), hn::ShiftRight<32>(pair));
    const auto part = hn::Sub(hn::BitCast(d, hn::Or(hn::And(x, low), one)), hn::Set(d, 0x1p52));
    const auto top = hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(hn::And(x, high), hn::Zero(du))), hn::Set(d, 0x1p52));
    hn::StoreU(hn::Mul(hn::Add(part, top), hn::Set(d, 0x1p-53)), d, v + i);
  }
  for (; i < n; ++i) {
    const uint64_t x = (static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1]) & (kLow | kHigh);
    v[i] = static_cast<double>(static_cast<int64_t>(x)) * 0x1p-53;
  }
}

// x % size without a division (D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation", Softw. Pract. Exper. 49, 2019): the fraction x / size, of 64 bits, times size.
void Remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const hn::Rebind<uint32_t, decltype(d)> half;
  constexpr int64_t kLanes = HWY_LANES(uint64_t);
  const uint64_t inverse = UINT64_MAX / size + 1;
  // Products of the low halves of 64-bit lanes.
  const auto times = [&](auto a, auto b) HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b)); };
  const auto inverse_low = hn::Set(d, inverse), inverse_high = hn::Set(d, inverse >> 32), sizes = hn::Set(d, uint64_t{size}), low = hn::Set(d, uint64_t{0xffffffff});
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto x = hn::PromoteTo(d, hn::LoadU(half, words + i));
    const auto fraction = hn::Add(times(x, inverse_low), hn::ShiftLeft<32>(times(x, inverse_high)));
    const auto carried = hn::ShiftRight<32>(times(hn::And(fraction, low), sizes));
    const auto rest = hn::ShiftRight<32>(hn::Add(times(hn::ShiftRight<32>(fraction), sizes), carried));
    hn::StoreU(hn::Add(rest, hn::Set(d, static_cast<uint64_t>(base))), d, reinterpret_cast<uint64_t*>(v) + i);
  }
  for (; i < n; ++i) v[i] = static_cast<int64_t>(static_cast<uint64_t>(words[i] % size) + static_cast<uint64_t>(base));
}

void NormalBlocks(double* data, int64_t blocks, double mean, double std) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t b = 0; b < blocks; ++b, data += 16) {
    for (int64_t j = 0; j < 8; j += lanes) {
      const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), math::Log(d, hn::Sub(hn::Set(d, 1.0), hn::LoadU(d, data + j)))));
      V s, c;
      math::SinAndCos(d, hn::Mul(hn::Set(d, 2 * M_PI), hn::LoadU(d, data + j + 8)), s, c);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, c), hn::Set(d, std), hn::Set(d, mean)), d, data + j);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, s), hn::Set(d, std), hn::Set(d, mean)), d, data + j + 8);
    }
  }
}

template <class F>
HWY_INLINE void ForEach(double* v, int64_t n, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, v + i)), d, v + i);
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    ::tessera::cpu::HWY_NAMESPACE::StoreTail(f(::tessera::cpu::HWY_NAMESPACE::LoadTail(d, v + i, rest)), d, v + i, rest);
  }
}

void ExponentialNumbers(double* v, int64_t n, double scale) {
  const D d;
  ForEach(v, n, [&](V x) HWY_ATTR { return hn::Mul(hn::Set(d, scale), math::Log1p(d, hn::Neg(x))); });
}
void CauchyNumbers(double* v, int64_t n, double median, double sigma) {
  const D d;
  ForEach(v, n, [&](V x) HWY_ATTR {
    const V tangent = math::Tan(d, hn::Mul(hn::Set(d, M_PI), hn::Sub(x, hn::Set(d, 0.5))));
    return hn::Add(hn::Set(d, median), hn::Mul(hn::Set(d, sigma), tangent));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::random_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::random_internal {

TESSERA_SIMD_TABLE(UnitFloats);
TESSERA_SIMD_TABLE(UnitDoubles);
TESSERA_SIMD_TABLE(Remainders);
TESSERA_SIMD_TABLE(NormalBlocks);
TESSERA_SIMD_TABLE(ExponentialNumbers);
TESSERA_SIMD_TABLE(CauchyNumbers);
void unit_floats(const uint32_t* words, int64_t n, int digits, float* v) { TESSERA_SIMD(UnitFloats)(words, n, digits, v); }
void unit_doubles(const uint32_t* words, int64_t n, double* v) { TESSERA_SIMD(UnitDoubles)(words, n, v); }
void remainders(const uint32_t* words, int64_t n, uint32_t size, int64_t base, int64_t* v) { TESSERA_SIMD(Remainders)(words, n, size, base, v); }
void box_muller_blocks(double* data, int64_t blocks, double mean, double std) { TESSERA_SIMD(NormalBlocks)(data, blocks, mean, std); }
void exponential_numbers(double* v, int64_t n, double scale) { TESSERA_SIMD(ExponentialNumbers)(v, n, scale); }
void cauchy_numbers(double* v, int64_t n, double median, double sigma) { TESSERA_SIMD(CauchyNumbers)(v, n, median, sigma); }

}  // namespace tessera::cpu::random_internal
#endif
