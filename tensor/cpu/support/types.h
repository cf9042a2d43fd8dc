// From a dtype to C++ types, for the kernels of nn/cpu/nn.h.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/core/half.h"
#include "tensor/cpu/support/integer.h"

namespace tessera::cpu::internal {

// Sums of T are kept in this type.
template <class T>
struct AccumulateIn {
  using type = T;
};
template <>
struct AccumulateIn<Half> {
  using type = float;
};
template <>
struct AccumulateIn<BFloat16> {
  using type = float;
};
template <>
struct AccumulateIn<ComplexHalf> {
  using type = std::complex<float>;
};
template <class T>
using Acc = typename AccumulateIn<T>::type;
template <class T>
inline constexpr bool kIsReduced = !std::is_same_v<T, Acc<T>>;

// NotImplementedError: "name" not implemented for 'Bool'.
[[noreturn]] void raise_not_implemented(const char* name, DType t);

// fn(T{}) for float16, bfloat16, float32, float64.
template <class F>
void visit_floats(const char* name, DType t, F&& fn) {
  switch (t) {
    case DType::kFloat16:
      return fn(Half{});
    case DType::kBFloat16:
      return fn(BFloat16{});
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    default:
      raise_not_implemented(name, t);
  }
}
// ... and the integers.
template <class F>
void visit_reals(const char* name, DType t, F&& fn) {
  switch (t) {
    case DType::kUInt8:
      return fn(uint8_t{});
    case DType::kInt8:
      return fn(int8_t{});
    case DType::kInt16:
      return fn(int16_t{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    case DType::kUInt16:
      return fn(uint16_t{});
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kUInt64:
      return fn(uint64_t{});
    default:
      return visit_floats(name, t, fn);
  }
}
// Types that differ only in how they add: integers by size (arithmetic modulo 2^bits), floats, complex numbers.
template <class F>
void visit_addable(const char* name, DType t, F&& fn) {
  switch (t) {
    case DType::kUInt8:
    case DType::kInt8:
      return fn(uint8_t{});
    case DType::kInt16:
    case DType::kUInt16:
      return fn(uint16_t{});
    case DType::kInt32:
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kInt64:
    case DType::kUInt64:
      return fn(uint64_t{});
    case DType::kComplex32:
      return fn(ComplexHalf{});
    case DType::kComplex64:
      return fn(std::complex<float>{});
    case DType::kComplex128:
      return fn(std::complex<double>{});
    default:
      return visit_floats(name, t, fn);
  }
}

inline int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

}  // namespace tessera::cpu::internal
