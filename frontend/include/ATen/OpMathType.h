// The types that are computed in, and added up in, where elements are of a smaller one.
#pragma once

#include "ATen/core/Tensor.h"

namespace at {

template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <>
struct OpMathType<ComplexHalf> {
  using type = c10::complex<float>;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

template <class T, bool is_cuda>
struct AccumulateType {
  using type = std::conditional_t<std::is_integral_v<T>, int64_t,
                                  std::conditional_t<is_cuda || !std::is_same_v<T, float>, opmath_type<T>, double>>;
};
template <class T, bool is_cuda>
using acc_type = typename AccumulateType<T, is_cuda>::type;

template <class T>
bool _isnan(T v) {
  return v != v;
}
template <class T>
bool _isinf(T v) {
  return std::isinf(static_cast<opmath_type<T>>(v));
}

}  // namespace at
