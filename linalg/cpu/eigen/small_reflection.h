// Reflections of two or three elements.
#pragma once

#include <cmath>

#include "linalg/cpu/columns.h"

namespace tessera::cpu::columns {

// A reflection of three elements as Kernels::reflect wants it for rows, from the left; of columns, from the right, the
// conjugates.
inline constexpr int64_t kFactors = 5;

template <class R>
R times_power(R x, int exponent) {
  return std::ldexp(x, exponent);
}
template <class R>
std::complex<R> times_power(std::complex<R> x, int exponent) {
  return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}

// I - tau (1, v) (1, v)^H that brings x, of 2 or 3 elements, to (beta, 0, 0); x[0] becomes beta.
template <class T>
bool small_reflection(int64_t size, T* x, T* factors) {
  using R = Real<T>;
  const auto square = [x] {
    R sum = 0;
    for (int i = 0; i < 3; ++i) sum += real_part(x[i]) * real_part(x[i]) + imag_part(x[i]) * imag_part(x[i]);
    return sum;
  };
  if (size == 2) x[2] = T(0);
  if (x[1] == T(0) && x[2] == T(0) && imag_part(x[0]) == 0) return false;
  R squared = square();
  constexpr R kLow = kSafeMin<T> / (kEps<T> * kEps<T>);
  int exponent = 0;
  if (!(squared > kLow && squared < 1 / kLow)) {  // squares that may be none
    const R most = std::max({size_of(x[0]), size_of(x[1]), size_of(x[2])});
    if (std::isfinite(most)) exponent = std::ilogb(most);
    for (int i = 0; i < 3; ++i) x[i] = times_power(x[i], -exponent);
    squared = square();
  }
  const R beta = -std::copysign(std::sqrt(squared), real_part(x[0]));
  const T tau = (T(beta) - conjugate(x[0])) / beta, inverse = T(1) / (x[0] - T(beta));  // of the adjoint
  const T v1 = times(x[1], inverse), v2 = times(x[2], inverse);
  factors[0] = conjugate(v1);
  factors[1] = conjugate(v2);
  factors[2] = tau;
  factors[3] = times(tau, v1);
  factors[4] = times(tau, v2);
  x[0] = T(std::ldexp(beta, exponent));
  return true;
}

// Of columns j ... of h, in rows k ..., `size` of them; and of columns k ... in rows [from, to).
template <class T>
void reflect_from_left(Matrix<T> h, int64_t k, int64_t size, const T* f, int64_t j, int64_t end) {
  T* x = &h(k, j);
  if (size == 3) {
    for (; j < end; ++j, x += h.col_stride) {
      const T sum = x[0] + times(f[0], x[1]) + times(f[1], x[2]);
      x[0] -= times(f[2], sum);
      x[1] -= times(f[3], sum);
      x[2] -= times(f[4], sum);
    }
  } else {
    for (; j < end; ++j, x += h.col_stride) {
      const T sum = x[0] + times(f[0], x[1]);
      x[0] -= times(f[2], sum);
      x[1] -= times(f[3], sum);
    }
  }
}
template <class T>
void reflect_from_right(Matrix<T> h, int64_t k, int64_t size, const T* f, int64_t from, int64_t to) {
  T g[kFactors];
  for (int64_t i = 0; i < kFactors; ++i) g[i] = conjugate(f[i]);
  const Reflections3<T> one{0, size == 3 ? 1 : 0, size == 2, g};
  kernels<T>().reflect(to - from, &h(from, k), h.col_stride, &one, 1);
}

}  // namespace tessera::cpu::columns
