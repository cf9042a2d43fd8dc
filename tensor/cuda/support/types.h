// Element types in device code, and how elements of any dtype are read and written.
#pragma once

#include <cuda/std/complex>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/core/visit.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

template <class T>
using Complex = ::cuda::std::complex<T>;

// Kinds of C++ type that device code sees for a dtype: bool, integers, Half, BFloat16, float, double, ComplexHalf,
// Complex<float>, Complex<double>, Float8*. Arithmetic is in Compute<T>: float for the reduced ones, T for the others.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<Half> {
  using type = float;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <>
struct ComputeType<ComplexHalf> {
  using type = Complex<float>;
};
template <>
struct ComputeType<Float8_e4m3fn> {
  using type = float;
};
template <>
struct ComputeType<Float8_e5m2> {
  using type = float;
};
template <>
struct ComputeType<Float8_e4m3fnuz> {
  using type = float;
};
template <>
struct ComputeType<Float8_e5m2fnuz> {
  using type = float;
};
template <>
struct ComputeType<Float8_e8m0fnu> {
  using type = float;
};
template <class T>
using Compute = typename ComputeType<T>::type;

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;
template <class T>
struct RealType {
  using type = T;
};
template <class T>
struct RealType<Complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealType<T>::type;

// Reduced precision: by the hardware's conversions on a device, by half.h's on the host; the same bits.
__host__ __device__ inline float to_float(Half h) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(h.bits));
#else
  return half_bits_to_float(h.bits);
#endif
}
__host__ __device__ inline float to_float(BFloat16 b) {
#ifdef __CUDA_ARCH__
  return __bfloat162float(__ushort_as_bfloat16(b.bits));
#else
  return bfloat16_bits_to_float(b.bits);
#endif
}
__host__ __device__ inline uint16_t half_bits(float f) {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(f));
#else
  return float_to_half_bits(f);
#endif
}
__host__ __device__ inline uint16_t bfloat16_bits(float f) {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(f));
#else
  return float_to_bfloat16_bits(f);
#endif
}

// One element in its compute type.
template <class T>
__device__ inline Compute<T> load(const T* p) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(*p);
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return Complex<float>(to_float(p->re), to_float(p->im));
  else
    return *p;
}
template <class T>
__device__ inline void store(T* p, Compute<T> v) {
  if constexpr (std::is_same_v<T, Half>)
    p->bits = half_bits(v);
  else if constexpr (std::is_same_v<T, BFloat16>)
    p->bits = bfloat16_bits(v);
  else if constexpr (std::is_same_v<T, ComplexHalf>) {
    p->re.bits = half_bits(v.real());
    p->im.bits = half_bits(v.imag());
  } else
    *p = v;
}

template <class T>
struct Tag {
  using type = T;
};

// Calls f(Tag<T>()) with the device type of a dtype out of a set. Throws NotImplementedError ('"name" not implemented
// for 'Bool'') for others.
enum : unsigned {
  kBools = 1,
  kInts = 2,
  kWideInts = 4,
  kReducedFloats = 8,
  kFloats = 16,
  kComplexes = 32,
  kComplexHalves = 64
};
inline constexpr unsigned kAllFloats = kReducedFloats | kFloats;
inline constexpr unsigned kNumbers = kInts | kAllFloats | kComplexes;
template <unsigned Set, class F>
decltype(auto) visit(DType t, const char* name, F&& f) {
  switch (t) {
    case DType::kBool:
      if constexpr (Set & kBools) return f(Tag<bool>());
      break;
    case DType::kUInt8:
      if constexpr (Set & kInts) return f(Tag<uint8_t>());
      break;
    case DType::kInt8:
      if constexpr (Set & kInts) return f(Tag<int8_t>());
      break;
    case DType::kInt16:
      if constexpr (Set & kInts) return f(Tag<int16_t>());
      break;
    case DType::kInt32:
      if constexpr (Set & kInts) return f(Tag<int32_t>());
      break;
    case DType::kInt64:
      if constexpr (Set & kInts) return f(Tag<int64_t>());
      break;
    case DType::kUInt16:
      if constexpr (Set & kWideInts) return f(Tag<uint16_t>());
      break;
    case DType::kUInt32:
      if constexpr (Set & kWideInts) return f(Tag<uint32_t>());
      break;
    case DType::kUInt64:
      if constexpr (Set & kWideInts) return f(Tag<uint64_t>());
      break;
    case DType::kFloat16:
      if constexpr (Set & kReducedFloats) return f(Tag<Half>());
      break;
    case DType::kBFloat16:
      if constexpr (Set & kReducedFloats) return f(Tag<BFloat16>());
      break;
    case DType::kFloat32:
      if constexpr (Set & kFloats) return f(Tag<float>());
      break;
    case DType::kFloat64:
      if constexpr (Set & kFloats) return f(Tag<double>());
      break;
    case DType::kComplex32:
      if constexpr (Set & kComplexHalves) return f(Tag<ComplexHalf>());
      break;
    case DType::kComplex64:
      if constexpr (Set & kComplexes) return f(Tag<Complex<float>>());
      break;
    case DType::kComplex128:
      if constexpr (Set & kComplexes) return f(Tag<Complex<double>>());
      break;
    default:
      break;
  }
  tessera::internal::raise<NotImplementedError>("\"", name, "\" not implemented for '", type_name_of(t), "'");
}

// Elements moved as they are, by size: 1, 2, 4, 8 or 16 bytes.
struct alignas(16) Bytes16 {
  uint64_t a, b;
};
template <class F>
decltype(auto) visit_size(int64_t item_size, F&& f) {
  return tessera::visit_size<Bytes16>(item_size, f);
}

}  // namespace tessera::cuda
