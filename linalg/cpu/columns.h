// Matrices that lie in columns, and the loops over them that reflections are made of, below the Tensor.
#pragma once

#include "linalg/cpu/batches.h"

namespace tessera::cpu::columns {

using namespace numbers;

// Reflections of three neighbouring columns each, of the first ones columns first, first + 1, first + 2, and so on; at
// the end one of two columns if `pair`. Each by five factors f: with s = x + f0 y + f1 z, x -= f2 s, y -= f3 s, z -= f4
// s.
template <class T>
struct Reflections3 {
  int64_t first, count;
  bool pair;
  const T* factors;
};

// Loops for the best SIMD level of this machine. Vectors are dense, matrices lie in columns, `ld` elements apart.
template <class T>
struct Kernels {
  // y[j] = sum_i conj(a(i, j)) x[i] for n columns of m elements.
  void (*dots)(int64_t m, int64_t n, const T* a, int64_t ld, const T* x, T* y);
  // y += sum_j a(:, j) x[j].
  void (*combine)(int64_t m, int64_t n, const T* a, int64_t ld, const T* x, T* y);
  // a(:, j) -= x w[j] for n columns.
  void (*rank_one)(int64_t m, int64_t n, const T* x, const T* w, T* a, int64_t ld);
  // Both while columns are at hand: a(:, j) -= v w[j], then y[j] = sum_i conj(a(i, j)) x[i].
  void (*rank_one_dots)(int64_t m, int64_t n, const T* v, const T* w, T* a, int64_t ld, const T* x, T* y);
  void (*scale)(int64_t n, T factor, T* x);
  // The sum of |x|^2.
  Real<T> (*squares)(int64_t n, const T* x);
  // From vectors x, y: x = c x + s y, y = c y - conj(s) x.
  void (*rotate)(int64_t n, T* x, T* y, Real<T> c, T s);
  // The sequences one after the other, on columns of n elements, `ld` apart.
  void (*reflect)(int64_t n, T* x, int64_t ld, const Reflections3<T>* sequences, int64_t count);
};
template <class T>
const Kernels<T>& kernels();

// sqrt(sum |x|^2), whatever their size.
template <class T>
Real<T> norm(int64_t n, const T* x) {
  using R = Real<T>;
  if (n <= 0) return 0;
  const R sum = kernels<T>().squares(n, x);
  // Below, squares that underflowed may count.
  if (sum > kSafeMin<T> / (kEps<T> * kEps<T>)&&sum < std::numeric_limits<R>::infinity()) [[likely]]
    return std::sqrt(sum);
  R most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const R re = std::abs(real_part(x[i])), im = std::abs(imag_part(x[i]));
    if (!(re <= most)) most = re;  // keeps nan
    if (!(im <= most)) most = im;
  }
  if (most == 0 || !(most < std::numeric_limits<R>::infinity())) return most;
  R scaled = 0;
  for (int64_t i = 0; i < n; ++i) {
    const R re = real_part(x[i]) / most, im = imag_part(x[i]) / most;
    scaled += re * re + im * im;
  }
  return most * std::sqrt(scaled);
}

}  // namespace tessera::cpu::columns
