// The numbers that matrices are made of, float, double and complex numbers of these, and what engines do alike for all.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu::numbers {

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;
// Reals in a number.
template <class T>
inline constexpr int kParts = kIsComplex<T> ? 2 : 1;

template <class T>
inline constexpr DType kDType = std::is_same_v<T, float>                 ? DType::kFloat32
                                : std::is_same_v<T, double>              ? DType::kFloat64
                                : std::is_same_v<T, std::complex<float>> ? DType::kComplex64
                                                                         : DType::kComplex128;

template <class T>
inline constexpr Real<T> kEps = std::numeric_limits<Real<T>>::epsilon();
// Whose inverse is no overflow.
template <class T>
inline constexpr Real<T> kSafeMin = std::numeric_limits<Real<T>>::min();

// fn(T{}) for the type of `t`.
template <class F>
void visit_number(DType t, F&& fn) {
  switch (t) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kComplex64:
      return fn(std::complex<float>{});
    case DType::kComplex128:
      return fn(std::complex<double>{});
    default:
      ::tessera::internal::raise<NotImplementedError>(
          "linalg: expected float32, float64, complex64 or complex128, but got ", name_of(t));
  }
}

template <class T>
T conj_if(T x, bool conj) {
  if constexpr (kIsComplex<T>)
    return conj ? std::conj(x) : x;
  else
    return x;
}
template <class T>
T conjugate(T x) {
  return conj_if(x, true);
}
template <class T>
Real<T> real_part(T x) {
  if constexpr (kIsComplex<T>)
    return x.real();
  else
    return x;
}
template <class T>
Real<T> imag_part(T x) {
  if constexpr (kIsComplex<T>)
    return x.imag();
  else
    return 0;
}
// std::complex's own product looks for nan in each result.
template <class T>
[[gnu::always_inline]] inline T times(T a, T b) {
  if constexpr (kIsComplex<T>)
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  else
    return a * b;
}
// |re| + |im|: as large as |x| but for a factor of 1.5, and no root. How pivots are compared.
template <class T>
Real<T> size_of(T x) {
  if constexpr (kIsComplex<T>)
    return std::abs(x.real()) + std::abs(x.imag());
  else
    return std::abs(x);
}

// A factor of a matrix product.
template <class T>
KernelParam number(T x) {
  KernelParam p;
  if constexpr (kIsComplex<T>) {
    p.c[0] = x.real();
    p.c[1] = x.imag();
  } else {
    p.f = x;
  }
  return p;
}

}  // namespace tessera::cpu::numbers
