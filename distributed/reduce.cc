#include "distributed/reduce.h"

#include <immintrin.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace tessera::distributed {
namespace {

constexpr size_t kBlock = 2048;  // elements: blocks stay in the first cache

// `out` may be `a`.
template <class T, class F>
void each(T* out, const T* a, const T* b, size_t count, F f) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
}

// NaN wins in both orders.
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return (b < a || b != b) ? b : a;
  return b < a ? b : a;
}
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return (b > a || b != b) ? b : a;
  return b > a ? b : a;
}

template <class T>
void combine(Fold fold, void* to, const void* one, const void* other, size_t count) {
  auto out = static_cast<T*>(to);
  auto a = static_cast<const T*>(one), b = static_cast<const T*>(other);
  // Integers wrap, which signed ones must not.
  using W = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (fold) {
    case Fold::kSum:
      return each(out, a, b, count, [](T x, T y) { return static_cast<T>(static_cast<W>(x) + static_cast<W>(y)); });
    case Fold::kProduct:
      return each(out, a, b, count, [](T x, T y) {
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
        } else {
          return x * y;
        }
      });
    case Fold::kMin:
      return each(out, a, b, count, smaller<T>);
    case Fold::kMax:
      return each(out, a, b, count, larger<T>);
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (fold == Fold::kAnd) each(out, a, b, count, [](T x, T y) { return static_cast<T>(x & y); });
    if (fold == Fold::kOr) each(out, a, b, count, [](T x, T y) { return static_cast<T>(x | y); });
    if (fold == Fold::kXor) each(out, a, b, count, [](T x, T y) { return static_cast<T>(x ^ y); });
  }
}

using Combine = void (*)(Fold, void*, const void*, const void*, size_t);

void bf16_to_float(float* out, const uint16_t* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    memcpy(out + i, &bits, 4);
  }
}

void float_to_bf16(uint16_t* out, const float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i] = nan ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  }
}

__attribute__((target("avx,f16c"))) void f16_to_float_f16c(float* out, const uint16_t* x, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  }
  for (; i < count; ++i) out[i] = _cvtsh_ss(x[i]);
}

__attribute__((target("avx,f16c"))) void float_to_f16_f16c(uint16_t* out, const float* x, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
  }
  for (; i < count; ++i) out[i] = _cvtss_sh(x[i], 0);
}

bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}

// Halves without F16C: by hand, to the nearest and to even.
float half_to_float(uint16_t h) {
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | (fraction << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else {
    float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint16_t sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;
  if (bits < 0x38800000) {  // below the smallest normal half: multiples of 2^-24
    float magnitude;
    memcpy(&magnitude, &bits, 4);
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  return sign | static_cast<uint16_t>((bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13);
}

void widen(Kind kind, float* out, const void* from, size_t count) {
  auto x = static_cast<const uint16_t*>(from);
  if (kind == Kind::kBF16) return bf16_to_float(out, x, count);
  if (has_f16c()) return f16_to_float_f16c(out, x, count);
  std::transform(x, x + count, out, half_to_float);
}

void narrow(Kind kind, void* to, const float* x, size_t count) {
  auto out = static_cast<uint16_t*>(to);
  if (kind == Kind::kBF16) return float_to_bf16(out, x, count);
  if (has_f16c()) return float_to_f16_f16c(out, x, count);
  std::transform(x, x + count, out, float_to_half);
}

void fold_halves(Kind kind, Fold fold, char* out, const void* const* sources, int n, size_t count) {
  float sum[kBlock], next[kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    size_t here = std::min(kBlock, count - at);
    widen(kind, sum, static_cast<const char*>(sources[0]) + 2 * at, here);
    for (int i = 1; i < n; ++i) {
      widen(kind, next, static_cast<const char*>(sources[i]) + 2 * at, here);
      combine<float>(fold, sum, sum, next, here);
    }
    narrow(kind, out + 2 * at, sum, here);
  }
}

Combine combine_of(Kind kind) {
  switch (kind) {
    case Kind::kF32:
      return combine<float>;
    case Kind::kF64:
      return combine<double>;
    case Kind::kI8:
      return combine<int8_t>;
    case Kind::kI16:
      return combine<int16_t>;
    case Kind::kU16:
      return combine<uint16_t>;
    case Kind::kI32:
      return combine<int32_t>;
    case Kind::kU32:
      return combine<uint32_t>;
    case Kind::kI64:
      return combine<int64_t>;
    case Kind::kU64:
      return combine<uint64_t>;
    default:
      return combine<uint8_t>;
  }
}

// True where a byte is not 0, as 1: sums and products of truth values.
Fold logical(Fold fold) {
  switch (fold) {
    case Fold::kSum:
    case Fold::kMax:
      return Fold::kOr;
    case Fold::kProduct:
    case Fold::kMin:
      return Fold::kAnd;
    default:
      return fold;
  }
}

}  // namespace

size_t size_of(Kind kind) {
  constexpr uint8_t kSizes[] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1};
  return kSizes[static_cast<int>(kind)];
}

bool can_fold(Kind kind, Fold fold) {
  if (kind == Kind::kBytes) return false;
  return kind > Kind::kBF16 || fold < Fold::kAnd;
}

void fold_all(Kind kind, Fold fold, void* to, const void* const* sources, int n, size_t count) {
  auto out = static_cast<char*>(to);
  if (kind == Kind::kF16 || kind == Kind::kBF16) return fold_halves(kind, fold, out, sources, n, count);
  if (kind == Kind::kBool) fold = logical(fold);
  auto run = combine_of(kind);
  size_t size = size_of(kind);
  for (size_t at = 0; at < count; at += kBlock) {
    size_t here = std::min(kBlock, count - at);
    char* block = out + size * at;
    auto first = static_cast<const char*>(sources[0]) + size * at;
    if (n == 1 && first != block) memcpy(block, first, size * here);
    for (int i = 1; i < n; ++i) {
      run(fold, block, i == 1 ? first : block, static_cast<const char*>(sources[i]) + size * at, here);
    }
  }
}

void copy_scaled(Kind kind, void* to, const void* from, size_t bytes, double scale) {
  auto times = [&]<class T>(T factor) {
    auto out = static_cast<T*>(to);
    auto x = static_cast<const T*>(from);
#pragma GCC ivdep
    for (size_t i = 0; i < bytes / sizeof(T); ++i) out[i] = x[i] * factor;
  };
  if (scale != 1 && kind == Kind::kF32) return times(static_cast<float>(scale));
  if (scale != 1 && kind == Kind::kF64) return times(scale);
  if (to != from) memcpy(to, from, bytes);
}

}  // namespace tessera::distributed
