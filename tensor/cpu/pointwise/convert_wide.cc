// int64 <-> floats.
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pointwise/convert_wide.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// For the compiler to vectorise. Values that do not fit become the machine's "indefinite" at every level.
#undef TESSERA_CAST
#if defined(__clang__)
#define TESSERA_CAST __attribute__((no_sanitize("float-cast-overflow")))
#elif defined(__SANITIZE_UNDEFINED__)
#define TESSERA_CAST __attribute__((no_sanitize("float-cast-overflow"), optimize("O3")))
#else
#define TESSERA_CAST __attribute__((optimize("O3")))
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class To, class From>
TESSERA_CAST void cast(void* dst, const void* src, int64_t n) {
  To* __restrict d = static_cast<To*>(dst);
  const From* __restrict s = static_cast<const From*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = static_cast<To>(s[i]);
}

}  // namespace

void FloatToInt64(void* dst, const void* src, int64_t n) { cast<int64_t, float>(dst, src, n); }
void DoubleToInt64(void* dst, const void* src, int64_t n) { cast<int64_t, double>(dst, src, n); }
void Int64ToFloat(void* dst, const void* src, int64_t n) { cast<float, int64_t>(dst, src, n); }
void Int64ToDouble(void* dst, const void* src, int64_t n) { cast<double, int64_t>(dst, src, n); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(FloatToInt64);
TESSERA_SIMD_TABLE(DoubleToInt64);
TESSERA_SIMD_TABLE(Int64ToFloat);
TESSERA_SIMD_TABLE(Int64ToDouble);
void float_to_int64(void* dst, const void* src, int64_t n) { TESSERA_SIMD(FloatToInt64)(dst, src, n); }
void double_to_int64(void* dst, const void* src, int64_t n) { TESSERA_SIMD(DoubleToInt64)(dst, src, n); }
void int64_to_float(void* dst, const void* src, int64_t n) { TESSERA_SIMD(Int64ToFloat)(dst, src, n); }
void int64_to_double(void* dst, const void* src, int64_t n) { TESSERA_SIMD(Int64ToDouble)(dst, src, n); }

}  // namespace tessera::cpu
#endif
