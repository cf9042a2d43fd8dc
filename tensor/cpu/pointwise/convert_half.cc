#include "tensor/cpu/pointwise/convert.h"

#include "tensor/core/half.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/convert_half.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/bfloat16_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, U32>;

// The lines some way behind the n elements at `from`.
template <class T>
HWY_INLINE void Request(const T* from, int64_t n) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < n * static_cast<int64_t>(sizeof(T)); i += kLine)
    request_ahead(reinterpret_cast<const char*>(from) + i);
}

void HalfToFloat(float* HWY_RESTRICT dst, const uint16_t* HWY_RESTRICT src, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SSE4  // without F16C Highway's emulation is slower than the scalar code
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> dh;
  const U16 du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    Request(src + i, lanes);
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du16, src + i))), d, dst + i);
  }
#endif
  for (; i < n; ++i) dst[i] = half_bits_to_float(src[i]);
}

// Whether to store past the caches.
bool Streams(const void* dst, Store how) { return how == Store::kStream && reinterpret_cast<uintptr_t>(dst) % 64 == 0; }

void FloatToHalf(uint16_t* HWY_RESTRICT dst, const float* HWY_RESTRICT src, int64_t n, Store how) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SSE4
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> dh;
  const U16 du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool stream = Streams(dst, how);
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::LoadU(d, src + i);
    // The instruction keeps part of a nan's payload; there is one nan per sign here.
    v = hn::IfThenElse(hn::IsNaN(v), hn::CopySign(hn::BitCast(d, hn::Set(U32(), 0x7fc00000u)), v), v);
    const auto bits = hn::BitCast(du16, hn::DemoteTo(dh, v));
    Request(src + i, lanes);
    if (stream)
      hn::Stream(bits, du16, dst + i);
    else
      hn::StoreU(bits, du16, dst + i);
  }
#else
  (void)how;
#endif
  for (; i < n; ++i) dst[i] = float_to_half_bits(src[i]);
}

void Bfloat16ToFloat(float* HWY_RESTRICT dst, const uint16_t* HWY_RESTRICT src, int64_t n) {
  const F32 d;
  const U32 du;
  const U16 du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Request(src + i, lanes);
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(du16, src + i)))), d, dst + i);
  }
  for (; i < n; ++i) dst[i] = bfloat16_bits_to_float(src[i]);
}

void FloatToBfloat16(uint16_t* HWY_RESTRICT dst, const float* HWY_RESTRICT src, int64_t n, Store how) {
  const F32 d;
  const hn::ScalableTag<uint16_t> du16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool stream = Streams(dst, how);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(d, src + i), b = hn::LoadU(d, src + i + lanes);
    const auto bits = RoundTwo(a, b);
    Request(src + i, 2 * lanes);
    if (stream)
      hn::Stream(bits, du16, dst + i);
    else
      hn::StoreU(bits, du16, dst + i);
  }
  for (; i < n; ++i) dst[i] = float_to_bfloat16_bits(src[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(HalfToFloat);
TESSERA_SIMD_TABLE(FloatToHalf);
TESSERA_SIMD_TABLE(Bfloat16ToFloat);
TESSERA_SIMD_TABLE(FloatToBfloat16);
void half_to_float(float* dst, const uint16_t* src, int64_t n) { TESSERA_SIMD(HalfToFloat)(dst, src, n); }
void float_to_half(uint16_t* dst, const float* src, int64_t n, Store how) {
  TESSERA_SIMD(FloatToHalf)(dst, src, n, how);
}
void bfloat16_to_float(float* dst, const uint16_t* src, int64_t n) { TESSERA_SIMD(Bfloat16ToFloat)(dst, src, n); }
void float_to_bfloat16(uint16_t* dst, const float* src, int64_t n, Store how) {
  TESSERA_SIMD(FloatToBfloat16)(dst, src, n, how);
}

}  // namespace tessera::cpu
#endif
