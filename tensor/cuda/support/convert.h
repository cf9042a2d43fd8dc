// One element of any dtype to one of any other, in device code: what kernels do where the dtype is known at run time
// only. The rules are those of cpu::convert.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

// The 8-bit floats (core/half.h). `fnuz` formats have no infinity and no negative zero, and 0x80 is their only nan.
struct Float8Format {
  int mantissa_bits, bias;
  bool fnuz;
  uint8_t max_finite, overflow, nan;  // magnitude bits: the largest number, what is beyond it, what a nan becomes
};
__device__ inline Float8Format float8_format(DType t) {
  switch (t) {
    case DType::kFloat8_e4m3fn:
      return {3, 7, false, 0x7e, 0x7e, 0x7f};
    case DType::kFloat8_e5m2:
      return {2, 15, false, 0x7b, 0x7c, 0x7f};
    case DType::kFloat8_e4m3fnuz:
      return {3, 8, true, 0x7f, 0x80, 0x80};
    default:
      return {2, 16, true, 0x7f, 0x80, 0x80};
  }
}

__device__ inline float float8_to_float(DType t, uint8_t b) {
  if (t == DType::kFloat8_e8m0fnu)
    return __uint_as_float(b == 0 ? 0x00400000u : b == 0xff ? 0x7f800001u : static_cast<uint32_t>(b) << 23);
  const Float8Format f = float8_format(t);
  const uint32_t sign = static_cast<uint32_t>(b & 0x80u) << 24, magnitude = b & 0x7fu;
  if (f.fnuz && b == 0x80) return __uint_as_float(0x7fc00000u | sign);
  if (!f.fnuz && magnitude > f.max_finite)
    return __uint_as_float(sign | (magnitude == f.overflow ? 0x7f800000u : 0x7fc00000u));
  const uint32_t exponent = magnitude >> f.mantissa_bits, mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const float scale = __uint_as_float((127 + (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits) << 23);
  const float value = static_cast<float>(exponent == 0 ? mantissa : mantissa | (1u << f.mantissa_bits)) * scale;
  return __uint_as_float(__float_as_uint(value) | sign);
}

// Rounds to nearest, ties to even.
__device__ inline uint8_t float_to_float8(DType t, float v) {
  const uint32_t x = __float_as_uint(v), a = x & 0x7fffffffu;
  if (t == DType::kFloat8_e8m0fnu) {
    const uint32_t exponent = a >> 23, mantissa = a & 0x7fffffu;
    return exponent == 0xff
               ? 0xff
               : static_cast<uint8_t>(exponent + (mantissa > 0x400000u || (mantissa == 0x400000u && exponent > 0)));
  }
  const Float8Format f = float8_format(t);
  const uint8_t sign = static_cast<uint8_t>((x >> 24) & 0x80u);
  if (a > 0x7f800000u) return f.fnuz ? f.nan : static_cast<uint8_t>(sign | f.nan);
  const int shift = 23 - f.mantissa_bits, exponent = static_cast<int>(a >> 23) - 127 + f.bias;
  uint32_t r = 0;
  if (exponent >= 1) {
    const uint32_t rounded = a + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1);
    r = (rounded >> shift) - (static_cast<uint32_t>(127 - f.bias) << f.mantissa_bits);
  } else if (const int s = shift + 1 - exponent; s < 26) {  // subnormal result
    const uint32_t m = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u);
    r = (m + ((1u << (s - 1)) - 1) + ((m >> s) & 1)) >> s;
  }
  if (r > f.max_finite) return f.fnuz ? f.nan : static_cast<uint8_t>(sign | f.overflow);
  return f.fnuz && r == 0 ? 0 : static_cast<uint8_t>(sign | r);
}

// A number of any dtype, exactly.
struct Number {
  enum Kind : int { kSigned, kUnsigned, kReal, kComplex } kind;
  int64_t i;      // the integers; kUnsigned by bit pattern
  double re, im;  // the others
};

__device__ __attribute__((noinline)) static Number read_number(const void* p, DType t) {
  Number n{Number::kSigned, 0, 0, 0};
  switch (t) {
    case DType::kBool:
      n.i = *static_cast<const uint8_t*>(p) != 0;
      break;
    case DType::kUInt8:
    case DType::kQUInt8:
      n.i = *static_cast<const uint8_t*>(p);
      break;
    case DType::kInt8:
    case DType::kQInt8:
      n.i = *static_cast<const int8_t*>(p);
      break;
    case DType::kInt16:
      n.i = *static_cast<const int16_t*>(p);
      break;
    case DType::kInt32:
    case DType::kQInt32:
      n.i = *static_cast<const int32_t*>(p);
      break;
    case DType::kInt64:
      n.i = *static_cast<const int64_t*>(p);
      break;
    case DType::kUInt16:
      n.i = *static_cast<const uint16_t*>(p);
      break;
    case DType::kUInt32:
      n.i = *static_cast<const uint32_t*>(p);
      break;
    case DType::kUInt64:
      n.kind = Number::kUnsigned;
      n.i = *static_cast<const int64_t*>(p);
      break;
    case DType::kFloat16:
      n.kind = Number::kReal;
      n.re = load(static_cast<const Half*>(p));
      break;
    case DType::kBFloat16:
      n.kind = Number::kReal;
      n.re = load(static_cast<const BFloat16*>(p));
      break;
    case DType::kFloat32:
      n.kind = Number::kReal;
      n.re = *static_cast<const float*>(p);
      break;
    case DType::kFloat64:
      n.kind = Number::kReal;
      n.re = *static_cast<const double*>(p);
      break;
    case DType::kComplex32:
      n.kind = Number::kComplex;
      n.re = load(static_cast<const Half*>(p));
      n.im = load(static_cast<const Half*>(p) + 1);
      break;
    case DType::kComplex64:
      n.kind = Number::kComplex;
      n.re = static_cast<const float*>(p)[0];
      n.im = static_cast<const float*>(p)[1];
      break;
    case DType::kComplex128:
      n.kind = Number::kComplex;
      n.re = static_cast<const double*>(p)[0];
      n.im = static_cast<const double*>(p)[1];
      break;
    default:
      n.kind = Number::kReal;
      n.re = float8_to_float(t, *static_cast<const uint8_t*>(p));
      break;
  }
  return n;
}

// The real part, rounded once.
template <class R>
__device__ inline R real_part(const Number& n) {
  if (n.kind == Number::kSigned) return static_cast<R>(n.i);
  if (n.kind == Number::kUnsigned) return static_cast<R>(static_cast<uint64_t>(n.i));
  return static_cast<R>(n.re);
}
// As an integer of 64 bits, which wraps to narrower ones. Reals that do not fit give some number.
__device__ inline int64_t integer_part(const Number& n) {
  if (n.kind <= Number::kUnsigned) return n.i;
  return n.re >= 9223372036854775808.0 ? static_cast<int64_t>(static_cast<uint64_t>(n.re)) : static_cast<int64_t>(n.re);
}

__device__ __attribute__((noinline)) static void write_number(void* p, DType t, const Number& n) {
  switch (t) {
    case DType::kBool:
      *static_cast<uint8_t*>(p) = n.kind <= Number::kUnsigned ? n.i != 0 : n.re != 0 || n.im != 0;
      break;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kQUInt8:
    case DType::kQInt8:
      *static_cast<uint8_t*>(p) = static_cast<uint8_t>(integer_part(n));
      break;
    case DType::kInt16:
    case DType::kUInt16:
      *static_cast<uint16_t*>(p) = static_cast<uint16_t>(integer_part(n));
      break;
    case DType::kInt32:
    case DType::kUInt32:
    case DType::kQInt32:
      *static_cast<uint32_t*>(p) = static_cast<uint32_t>(integer_part(n));
      break;
    case DType::kInt64:
    case DType::kUInt64:
      *static_cast<int64_t*>(p) = integer_part(n);
      break;
    case DType::kFloat16:
      store(static_cast<Half*>(p), real_part<float>(n));
      break;
    case DType::kBFloat16:
      store(static_cast<BFloat16*>(p), real_part<float>(n));
      break;
    case DType::kFloat32:
      *static_cast<float*>(p) = real_part<float>(n);
      break;
    case DType::kFloat64:
      *static_cast<double*>(p) = real_part<double>(n);
      break;
    case DType::kComplex32:
      store(static_cast<Half*>(p), real_part<float>(n));
      store(static_cast<Half*>(p) + 1, static_cast<float>(n.im));
      break;
    case DType::kComplex64:
      static_cast<float*>(p)[0] = real_part<float>(n);
      static_cast<float*>(p)[1] = static_cast<float>(n.im);
      break;
    case DType::kComplex128:
      static_cast<double*>(p)[0] = real_part<double>(n);
      static_cast<double*>(p)[1] = n.im;
      break;
    default:
      *static_cast<uint8_t*>(p) = float_to_float8(t, real_part<float>(n));
      break;
  }
}

// *to = (dtype of `to`) *from. The memory of `to` may be a variable of another type of the same size.
__device__ inline void convert_element(void* to, DType to_dtype, const void* from, DType from_dtype) {
  write_number(to, to_dtype, read_number(from, from_dtype));
}

// Several elements that are read and written as one: Bytes<16>::type and so on.
template <int n>
struct Bytes;
template <>
struct Bytes<1> {
  using type = uint8_t;
};
template <>
struct Bytes<2> {
  using type = uint16_t;
};
template <>
struct Bytes<4> {
  using type = uint32_t;
};
template <>
struct Bytes<8> {
  using type = uint2;
};
template <>
struct Bytes<16> {
  using type = uint4;
};

// kCount elements, dense and aligned to their size together (to 16 bytes if they are more).
template <int kCount, class T>
__device__ inline void load_vector(T (&v)[kCount], const void* p) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T)), kPart = kBytes < 16 ? kBytes : 16;
  using Part = typename Bytes<kPart>::type;
  Part parts[kBytes / kPart];
#pragma unroll
  for (int i = 0; i < kBytes / kPart; ++i) parts[i] = static_cast<const Part*>(p)[i];
  memcpy(static_cast<void*>(v), parts, kBytes);
}
template <int kCount, class T>
__device__ inline void store_vector(void* p, const T (&v)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T)), kPart = kBytes < 16 ? kBytes : 16;
  using Part = typename Bytes<kPart>::type;
  Part parts[kBytes / kPart];
  memcpy(parts, static_cast<const void*>(v), kBytes);
#pragma unroll
  for (int i = 0; i < kBytes / kPart; ++i)
    __stwb(static_cast<Part*>(p) + i, parts[i]);  // a plain assignment may be taken apart
}

}  // namespace tessera::cuda
