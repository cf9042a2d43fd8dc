// Contiguous conversion between any two element types.
//
// Few types convert to each other directly, by a loop per pair: the signed integers, float32, float64 and what they
// cannot stand for. The others reach one of them first, or come from one of them, a chunk that stays in L1 at a time:
// float16, bfloat16, the float8 formats and complex numbers from and to float32 (complex128 float64), unsigned integers
// from and to wider ones or those of the same bits.
#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/support/simd_move.h"

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

// Values that do not fit are unspecified but harmless, as on the machine. Narrow integers go through int32, so that
// -1.0 becomes 255 as uint8.
template <class To, class From>
TESSERA_ANY_FLOAT_CAST inline To float_to_int(From v) {
  if constexpr (sizeof(To) <= 2) {
    return static_cast<To>(static_cast<int32_t>(v));
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = static_cast<From>(9223372036854775808.0);
    return v >= kHalf ? static_cast<uint64_t>(static_cast<int64_t>(v - kHalf)) ^ (uint64_t{1} << 63)
                      : static_cast<uint64_t>(static_cast<int64_t>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
inline To cast_value(From v) {
  if constexpr (std::is_same_v<To, bool>)
    return v != From{};
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return float_to_int<To>(v);
  else
    return static_cast<To>(v);
}

template <class To, class From>
void cast_loop(void* dst, const void* src, int64_t n) {
  To* __restrict d = static_cast<To*>(dst);
  const From* __restrict s = static_cast<const From*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = cast_value<To>(s[i]);
}

using Loop = void (*)(void*, const void*, int64_t);

// What is converted directly. Targets: a byte for bool first, then signed integers and floats; uint64 from floats
// alone. Sources: uint8 first, which a bool becomes; uint64 to floats alone.
enum Core { kByte, kI8, kI16, kI32, kI64, kF32, kF64, kU64, kNumCore };

template <class To>
struct Row {
  static constexpr Loop loops[kNumCore] = {
      cast_loop<To, uint8_t>, cast_loop<To, int8_t>, cast_loop<To, int16_t>, cast_loop<To, int32_t>,
      cast_loop<To, int64_t>, cast_loop<To, float>,  cast_loop<To, double>,  nullptr};
};
constexpr Loop kToFloat[kNumCore] = {cast_loop<float, uint8_t>,
                                     cast_loop<float, int8_t>,
                                     cast_loop<float, int16_t>,
                                     cast_loop<float, int32_t>,
                                     int64_to_float,
                                     cast_loop<float, float>,
                                     cast_loop<float, double>,
                                     cast_loop<float, uint64_t>};
constexpr Loop kToDouble[kNumCore] = {cast_loop<double, uint8_t>,
                                      cast_loop<double, int8_t>,
                                      cast_loop<double, int16_t>,
                                      cast_loop<double, int32_t>,
                                      int64_to_double,
                                      cast_loop<double, float>,
                                      cast_loop<double, double>,
                                      cast_loop<double, uint64_t>};
constexpr Loop kToInt64[kNumCore] = {cast_loop<int64_t, uint8_t>,
                                     cast_loop<int64_t, int8_t>,
                                     cast_loop<int64_t, int16_t>,
                                     cast_loop<int64_t, int32_t>,
                                     cast_loop<int64_t, int64_t>,
                                     float_to_int64,
                                     double_to_int64,
                                     nullptr};
constexpr Loop kToUint64[kNumCore] = {
    nullptr, nullptr, nullptr, nullptr, nullptr, cast_loop<uint64_t, float>, cast_loop<uint64_t, double>, nullptr};
constexpr const Loop* kLoops[kNumCore] = {Row<bool>::loops,    Row<int8_t>::loops, Row<int16_t>::loops,
                                          Row<int32_t>::loops, kToInt64,           kToFloat,
                                          kToDouble,           kToUint64};

bool is_float(Core c) { return c == kF32 || c == kF64; }

// What t is read as, after widening where it is not one of them.
Core source_core(DType t, bool to_float) {
  switch (t) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kQUInt8:
      return kByte;
    case DType::kInt8:
    case DType::kQInt8:
      return kI8;
    case DType::kInt16:
      return kI16;
    case DType::kInt32:
    case DType::kQInt32:
    case DType::kUInt16:
      return kI32;
    case DType::kInt64:
    case DType::kUInt32:
      return kI64;
    case DType::kUInt64:
      return to_float ? kU64 : kI64;
    case DType::kFloat64:
    case DType::kComplex128:
      return kF64;
    default:
      return kF32;
  }
}
// What becomes t, after narrowing where it does not have its bits.
Core target_core(DType t, bool from_float) {
  switch (t) {
    case DType::kBool:
      return kByte;
    case DType::kUInt8:
    case DType::kQUInt8:
    case DType::kInt8:
    case DType::kQInt8:
      return kI8;
    case DType::kInt16:
    case DType::kUInt16:
      return kI16;
    case DType::kInt32:
    case DType::kQInt32:
      return kI32;
    case DType::kUInt32:
      return from_float ? kI64 : kI32;
    case DType::kInt64:
      return kI64;
    case DType::kUInt64:
      return from_float ? kU64 : kI64;
    case DType::kFloat64:
    case DType::kComplex128:
      return kF64;
    default:
      return kF32;
  }
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

template <class T>
void real_parts(void* dst, const void* src, int64_t n) {
  T* d = static_cast<T*>(dst);
  const T* s = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = s[2 * i];
}
template <class T>
void with_zeros(void* dst, const void* src, int64_t n) {
  T* d = static_cast<T*>(dst);
  const T* s = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) {
    d[2 * i] = s[i];
    d[2 * i + 1] = T{0};
  }
}

constexpr int64_t kChunk = 512;

// A byte of a bool tensor is read as a byte: whatever is not 0 is true, so that a foreign buffer cannot make the
// behaviour undefined.
void normalise_bools(void* dst, const void* src, int64_t n) {
  uint8_t* d = static_cast<uint8_t*>(dst);
  const uint8_t* s = static_cast<const uint8_t*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = s[i] < 1 ? s[i] : uint8_t{1};
}

bool is_widened(DType t) {
  return t == DType::kBool || t == DType::kUInt16 || t == DType::kUInt32 || is_reduced_float(t) || is_complex(t) ||
         is_float8(t);
}
// dst: elements of source_core(from).
void to_core(void* dst, DType from, const void* src, int64_t n) {
  float* d = static_cast<float*>(dst);
  switch (from) {
    case DType::kBool:
      return normalise_bools(dst, src, n);
    case DType::kUInt16:
      return cast_loop<int32_t, uint16_t>(dst, src, n);
    case DType::kUInt32:
      return cast_loop<int64_t, uint32_t>(dst, src, n);
    case DType::kFloat16:
      return half_to_float(d, static_cast<const uint16_t*>(src), n);
    case DType::kBFloat16:
      return bfloat16_to_float(d, static_cast<const uint16_t*>(src), n);
    case DType::kFloat8_e4m3fn:
      return widen<Float8_e4m3fn>(d, src, n);
    case DType::kFloat8_e5m2:
      return widen<Float8_e5m2>(d, src, n);
    case DType::kFloat8_e4m3fnuz:
      return widen<Float8_e4m3fnuz>(d, src, n);
    case DType::kFloat8_e5m2fnuz:
      return widen<Float8_e5m2fnuz>(d, src, n);
    case DType::kFloat8_e8m0fnu:
      return widen<Float8_e8m0fnu>(d, src, n);
    case DType::kComplex64:
      return real_parts<float>(dst, src, n);
    case DType::kComplex128:
      return real_parts<double>(dst, src, n);
    default: {  // complex32
      float both[2 * kChunk];
      half_to_float(both, static_cast<const uint16_t*>(src), 2 * n);
      return real_parts<float>(dst, both, n);
    }
  }
}

bool is_narrowed(DType t, Core core) {
  return (t == DType::kUInt32 && core == kI64) || is_reduced_float(t) || is_complex(t) || is_float8(t);
}
// src: elements of target_core(to).
void from_core(DType to, void* dst, const void* src, int64_t n) {
  const float* s = static_cast<const float*>(src);
  switch (to) {
    case DType::kUInt32:
      return cast_loop<int32_t, int64_t>(dst, src, n);
    case DType::kFloat16:
      return float_to_half(static_cast<uint16_t*>(dst), s, n);
    case DType::kBFloat16:
      return float_to_bfloat16(static_cast<uint16_t*>(dst), s, n);
    case DType::kFloat8_e4m3fn:
      return narrow<Float8_e4m3fn>(dst, s, n);
    case DType::kFloat8_e5m2:
      return narrow<Float8_e5m2>(dst, s, n);
    case DType::kFloat8_e4m3fnuz:
      return narrow<Float8_e4m3fnuz>(dst, s, n);
    case DType::kFloat8_e5m2fnuz:
      return narrow<Float8_e5m2fnuz>(dst, s, n);
    case DType::kFloat8_e8m0fnu:
      return narrow<Float8_e8m0fnu>(dst, s, n);
    case DType::kComplex64:
      return with_zeros<float>(dst, src, n);
    case DType::kComplex128:
      return with_zeros<double>(dst, src, n);
    default: {  // complex32
      uint16_t halves[kChunk];
      float_to_half(halves, s, n);
      return with_zeros<uint16_t>(dst, halves, n);
    }
  }
}

// True where either part is.
void complex_to_bool(uint8_t* dst, DType from, const char* src, int64_t n) {
  uint8_t parts[2 * kChunk];
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    convert(DType::kBool, parts, to_real(from), src + i * item_size(from), 2 * m);
    for (int64_t k = 0; k < m; ++k) dst[i + k] = parts[2 * k] | parts[2 * k + 1];
  }
}

}  // namespace

void convert(DType to, void* dst, DType from, const void* src, int64_t n) {
  if (to == from) {
    std::memcpy(dst, src, n * item_size(to));
    return;
  }
  for (const DType t : {from, to})
    TESSERA_CHECK_NOT_IMPLEMENTED(!is_storage_only(t), "\"copy_\" not implemented for '", type_name_of(t), "'");
  if (is_complex(from) && is_complex(to)) return convert(to_real(to), dst, to_real(from), src, 2 * n);
  if (is_complex(from) && to == DType::kBool)
    return complex_to_bool(static_cast<uint8_t*>(dst), from, static_cast<const char*>(src), n);
  const Core target = target_core(to, is_float(source_core(from, false))), source = source_core(from, is_float(target));
  const bool widened = is_widened(from), narrowed = is_narrowed(to, target),
             cast = source != target || to == DType::kBool;
  const Loop loop = kLoops[target][source];
  if (!widened && !narrowed) return loop(dst, src, n);
  // One or two of three steps, in chunks where there is something between them.
  if (!narrowed && !cast && from != DType::kComplex32) return to_core(dst, from, src, n);
  if (!widened && !cast && to != DType::kComplex32) return from_core(to, dst, src, n);
  alignas(64) char wide[kChunk * 8], changed[kChunk * 8];
  const char* s = static_cast<const char*>(src);
  char* d = static_cast<char*>(dst);
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    const void* p = s + i * item_size(from);
    if (widened) {
      to_core(wide, from, p, m);
      p = wide;
    }
    void* out = d + i * item_size(to);
    if (cast || !narrowed) {
      void* next = narrowed ? changed : out;
      loop(next, p, m);
      p = next;
    }
    if (narrowed) from_core(to, out, p, m);
  }
}

void convert_stream(DType to, void* dst, DType from, const void* src, int64_t n) {
  if (to == from) return stream_copy(dst, src, n * item_size(to));
  if (from == DType::kFloat32 && to == DType::kBFloat16)
    return float_to_bfloat16(static_cast<uint16_t*>(dst), static_cast<const float*>(src), n, Store::kStream);
  if (from == DType::kFloat32 && to == DType::kFloat16)
    return float_to_half(static_cast<uint16_t*>(dst), static_cast<const float*>(src), n, Store::kStream);
  alignas(64) char out[1024];
  const int64_t chunk = static_cast<int64_t>(sizeof out) / item_size(to);
  for (int64_t i = 0; i < n; i += chunk) {
    const int64_t m = std::min(chunk, n - i);
    convert(to, out, from, static_cast<const char*>(src) + i * item_size(from), m);
    stream_copy(static_cast<char*>(dst) + i * item_size(to), out, m * item_size(to));
  }
}

}  // namespace tessera::cpu
