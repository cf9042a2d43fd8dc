// Contiguous conversion between any two element types.
//
// Thirteen types convert to each other directly (one loop per pair). float16, bfloat16 and the float8 formats go through float32, complex32
// through complex64, a chunk that stays in L1 at a time.
#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/pointwise.h"

// These loops are plain C++ for the compiler to vectorise, which -O2 of GCC 12 only does for trivial trip counts.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif
#if defined(__clang__) || defined(__SANITIZE_UNDEFINED__)
#define TESSERA_ANY_FLOAT_CAST __attribute__((no_sanitize("float-cast-overflow")))
#else
#define TESSERA_ANY_FLOAT_CAST
#endif

namespace tessera::cpu {
namespace {

template <class T> struct IsComplex : std::false_type {};
template <class T> struct IsComplex<std::complex<T>> : std::true_type {};

// Values that do not fit are unspecified but harmless, as on the machine. Narrow integers go through int32, so that -1.0 becomes 255 as uint8.
template <class To, class From>
TESSERA_ANY_FLOAT_CAST inline To float_to_int(From v) {
  if constexpr (sizeof(To) <= 2) {
    return static_cast<To>(static_cast<int32_t>(v));
  } else if constexpr (std::is_same_v<To, uint32_t>) {
    return static_cast<To>(static_cast<int64_t>(v));
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = static_cast<From>(9223372036854775808.0);
    return v >= kHalf ? static_cast<uint64_t>(static_cast<int64_t>(v - kHalf)) ^ (uint64_t{1} << 63) : static_cast<uint64_t>(static_cast<int64_t>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
inline To cast_value(From v) {
  if constexpr (IsComplex<From>::value && IsComplex<To>::value) {
    using R = typename To::value_type;
    return To(static_cast<R>(v.real()), static_cast<R>(v.imag()));
  } else if constexpr (std::is_same_v<To, bool>) {
    if constexpr (IsComplex<From>::value) return v.real() != 0 || v.imag() != 0;
    else return v != From{};
  } else if constexpr (IsComplex<From>::value) {
    return cast_value<To>(v.real());
  } else if constexpr (IsComplex<To>::value) {
    return To(static_cast<typename To::value_type>(v), 0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return float_to_int<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// A byte of a bool tensor is read as a byte: whatever is not 0 is true, so that a foreign buffer cannot make the behaviour undefined.
template <class T> struct Stored { using type = T; };
template <> struct Stored<bool> { using type = uint8_t; };

template <class To, class From>
void cast_loop(void* dst, const void* src, int64_t n) {
  To* __restrict d = static_cast<To*>(dst);
  const typename Stored<From>::type* __restrict s = static_cast<const typename Stored<From>::type*>(src);
  if constexpr (std::is_same_v<From, bool>) {
    constexpr int64_t kPart = 256;
    uint8_t ones[kPart];  // two simple loops become SIMD code, one combined does not
    for (int64_t at = 0; at < n; at += kPart) {
      const int64_t m = std::min(kPart, n - at);
      for (int64_t i = 0; i < m; ++i) ones[i] = s[at + i] < 1 ? s[at + i] : uint8_t{1};
      for (int64_t i = 0; i < m; ++i) d[at + i] = cast_value<To>(ones[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) d[i] = cast_value<To>(s[i]);
  }
}

using Loop = void (*)(void*, const void*, int64_t);
constexpr int kNumBase = 13;
// Index among the types with direct loops, or -1.
constexpr int8_t kBaseIndex[kNumDTypes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -1, 9, 10, -1, 11, 12, -1, -1, -1, -1, -1, 1, 2, 4, -1};

template <class To>
struct Row {
  static constexpr Loop loops[kNumBase] = {cast_loop<To, bool>, cast_loop<To, uint8_t>, cast_loop<To, int8_t>, cast_loop<To, int16_t>,
                                           cast_loop<To, int32_t>, cast_loop<To, int64_t>, cast_loop<To, uint16_t>, cast_loop<To, uint32_t>,
                                           cast_loop<To, uint64_t>, cast_loop<To, float>, cast_loop<To, double>, cast_loop<To, std::complex<float>>,
                                           cast_loop<To, std::complex<double>>};
};
constexpr const Loop* kLoops[kNumBase] = {Row<bool>::loops, Row<uint8_t>::loops, Row<int8_t>::loops, Row<int16_t>::loops, Row<int32_t>::loops,
                                          Row<int64_t>::loops, Row<uint16_t>::loops, Row<uint32_t>::loops, Row<uint64_t>::loops, Row<float>::loops,
                                          Row<double>::loops, Row<std::complex<float>>::loops, Row<std::complex<double>>::loops};

// The type through which t is read and written.
DType base_of(DType t) {
  if (kBaseIndex[static_cast<int>(t)] >= 0) return t;
  TESSERA_CHECK_NOT_IMPLEMENTED(t != DType::kQUInt4x2, "\"copy_\" not implemented for '", type_name_of(t), "'");
  return t == DType::kComplex32 ? DType::kComplex64 : DType::kFloat32;
}

template <class F>
void widen(float* dst, const void* src, int64_t n) {
  const F* s = static_cast<const F*>(src);
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<float>(s[i]);
}
template <class F>
void narrow(void* dst, const float* src, int64_t n) {
  F* d = static_cast<F*>(dst);
  for (int64_t i = 0; i < n; ++i) d[i] = F(src[i]);
}

// dst: base_of(from) elements.
void to_base(void* dst, DType from, const void* src, int64_t n) {
  float* d = static_cast<float*>(dst);
  switch (from) {
    case DType::kFloat16: return half_to_float(d, static_cast<const uint16_t*>(src), n);
    case DType::kComplex32: return half_to_float(d, static_cast<const uint16_t*>(src), 2 * n);
    case DType::kBFloat16: return bfloat16_to_float(d, static_cast<const uint16_t*>(src), n);
    case DType::kFloat8_e4m3fn: return widen<Float8_e4m3fn>(d, src, n);
    case DType::kFloat8_e5m2: return widen<Float8_e5m2>(d, src, n);
    case DType::kFloat8_e4m3fnuz: return widen<Float8_e4m3fnuz>(d, src, n);
    case DType::kFloat8_e5m2fnuz: return widen<Float8_e5m2fnuz>(d, src, n);
    default: return widen<Float8_e8m0fnu>(d, src, n);
  }
}

// src: base_of(to) elements.
void from_base(DType to, void* dst, const void* src, int64_t n) {
  const float* s = static_cast<const float*>(src);
  switch (to) {
    case DType::kFloat16: return float_to_half(static_cast<uint16_t*>(dst), s, n);
    case DType::kComplex32: return float_to_half(static_cast<uint16_t*>(dst), s, 2 * n);
    case DType::kBFloat16: return float_to_bfloat16(static_cast<uint16_t*>(dst), s, n);
    case DType::kFloat8_e4m3fn: return narrow<Float8_e4m3fn>(dst, s, n);
    case DType::kFloat8_e5m2: return narrow<Float8_e5m2>(dst, s, n);
    case DType::kFloat8_e4m3fnuz: return narrow<Float8_e4m3fnuz>(dst, s, n);
    case DType::kFloat8_e5m2fnuz: return narrow<Float8_e5m2fnuz>(dst, s, n);
    default: return narrow<Float8_e8m0fnu>(dst, s, n);
  }
}

Loop base_loop(DType to, DType from) { return kLoops[kBaseIndex[static_cast<int>(to)]][kBaseIndex[static_cast<int>(from)]]; }

}  // namespace

void convert(DType to, void* dst, DType from, const void* src, int64_t n) {
  if (to == from) {
    std::memcpy(dst, src, n * item_size(to));
    return;
  }
  const DType base_from = base_of(from), base_to = base_of(to);
  if (base_from == from && base_to == to) return base_loop(to, from)(dst, src, n);
  // One or two of three steps: from -> base_from -> base_to -> to.
  if (base_from == base_to && base_from == from) return from_base(to, dst, src, n);
  if (base_from == base_to && base_to == to) return to_base(dst, from, src, n);
  constexpr int64_t kChunk = 512;
  alignas(64) char wide[kChunk * 16], cast[kChunk * 16];
  const char* s = static_cast<const char*>(src);
  char* d = static_cast<char*>(dst);
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    const void* p = s + i * item_size(from);
    if (base_from != from) {
      to_base(wide, from, p, m);
      p = wide;
    }
    void* out = d + i * item_size(to);
    if (base_from != base_to) {
      void* target = base_to == to ? out : cast;
      base_loop(base_to, base_from)(target, p, m);
      p = target;
    }
    if (base_to != to) from_base(to, out, p, m);
  }
}

}  // namespace tessera::cpu
