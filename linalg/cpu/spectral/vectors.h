// Real and complex vectors: products with matrices whose rows are dense, Householder's reflections one by one and in
// blocks. What rows.h does for reals, for all four types of elements.
#pragma once

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "linalg/cpu/spectral/rows.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

template <class T>
struct ElementTraits {
  using Real = T;
  static constexpr bool kComplex = false;
  static constexpr int kWidth = 1;  // reals in an element
  static constexpr DType kDType = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
};
template <class R>
struct ElementTraits<std::complex<R>> {
  using Real = R;
  static constexpr bool kComplex = true;
  static constexpr int kWidth = 2;
  static constexpr DType kDType = sizeof(R) == 4 ? DType::kComplex64 : DType::kComplex128;
};
template <class T>
using RealOf = typename ElementTraits<T>::Real;

inline float conj_of(float x) { return x; }
inline double conj_of(double x) { return x; }
template <class R>
std::complex<R> conj_of(std::complex<R> x) {
  return {x.real(), -x.imag()};
}
template <class T>
RealOf<T> real_of(T x) {
  if constexpr (ElementTraits<T>::kComplex)
    return x.real();
  else
    return x;
}
// x y: as written for complex numbers, without C's care for infinities.
template <class T>
T times(T x, T y) {
  if constexpr (ElementTraits<T>::kComplex)
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  else
    return x * y;
}

// alpha = 1, beta = 0 ... for gemm.
template <class T>
KernelParam param(double x) {
  KernelParam p;
  if constexpr (ElementTraits<T>::kComplex)
    p.c[0] = x, p.c[1] = 0;
  else
    p.f = x;
  return p;
}

// Products with `count` rows of n elements, and what they need of memory: for vectors of at most `longest` elements.
template <class T>
class RowProducts {
 public:
  using R = RealOf<T>;
  explicit RowProducts(int64_t longest) : longest_(longest), room_(ElementTraits<T>::kComplex ? 8 * longest : 0) {}

  // out_i = sum_j conj(row_i[j]) x[j].
  void dot(const T* rows, int64_t stride, int64_t count, int64_t n, const T* x, T* out) const {
    if constexpr (!ElementTraits<T>::kComplex) {
      rows_dot({rows, stride, count, n, 1}, &x, &out);
    } else {
      const R* side[2] = {reals(x), turned(x, n)};
      R* sums[2] = {part(1), part(1) + longest_};
      rows_dot({reals(rows), 2 * stride, count, 2 * n, 2}, side, sums);
      for (int64_t i = 0; i < count; ++i) out[i] = {sums[0][i], sums[1][i]};
    }
  }
  // y[j] += sum_i c_i row_i[j].
  void axpy(const T* rows, int64_t stride, int64_t count, int64_t n, const T* c, T* y) const {
    if constexpr (!ElementTraits<T>::kComplex) {
      rows_axpy({rows, stride, count, n, 1}, &c, &y);
    } else {
      const R* factors[2];
      split(c, count, factors);
      R* into[2] = {reals(y), part(2)};
      std::fill_n(into[1], 2 * n, R{0});
      rows_axpy({reals(rows), 2 * stride, count, 2 * n, 2}, factors, into);
      add_turned(into[1], n, y);
    }
  }
  // y = A x, where A is Hermitian and row_i[j] is its element (j, i) for j >= i; others are not read.
  void hermitian(const T* rows, int64_t stride, int64_t n, const T* x, T* y) const {
    std::fill_n(y, n, T{});
    if (n == 0) return;
    if constexpr (!ElementTraits<T>::kComplex) {
      T* const sums = sums_for(n);
      rows_triangle({rows, stride, n, n, 1}, 1, &x, &y, &x, &sums);
      for (int64_t i = 0; i < n; ++i) y[i] += sums[i];
    } else {
      const R *factors[2], *side[2] = {reals(x), turned(x, n)};
      split(x, n, factors);
      R *into[2] = {reals(y), part(2)}, *sums[2] = {part(1), part(1) + longest_};
      std::fill_n(into[1], 2 * n, R{0});
      rows_triangle({reals(rows), 2 * stride, n, 2 * n, 2}, 2, factors, into, side, sums);
      add_turned(into[1], n, y);
      for (int64_t i = 0; i < n; ++i) y[i] += T(sums[0][i], sums[1][i]);
    }
  }

 private:
  static const R* reals(const T* x) { return reinterpret_cast<const R*>(x); }
  static R* reals(T* x) { return reinterpret_cast<R*>(x); }
  R* part(int64_t k) const { return room_.get() + 2 * k * longest_; }
  R* sums_for(int64_t n) const {
    if (static_cast<int64_t>(sums_.size()) < n) sums_.resize(n);
    return sums_.data();
  }
  // -i x, so that the dot product of conj(a) and x has the imaginary part a . turned as reals.
  const R* turned(const T* x, int64_t n) const {
    R* const to = part(0);
    for (int64_t j = 0; j < n; ++j) {
      to[2 * j] = x[j].imag();
      to[2 * j + 1] = -x[j].real();
    }
    return to;
  }
  void split(const T* c, int64_t count, const R** parts) const {
    R* const to = part(3);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = c[i].real();
      to[longest_ + i] = c[i].imag();
    }
    parts[0] = to;
    parts[1] = to + longest_;
  }
  // y += i x.
  static void add_turned(const R* x, int64_t n, T* y) {
    for (int64_t j = 0; j < n; ++j) y[j] += T(-x[2 * j + 1], x[2 * j]);
  }

  int64_t longest_;
  ScratchArray<R> room_;
  mutable std::vector<R> sums_;
};

// H = I - tau v v^H with v[0] = 1 such that H^H x = (beta, 0 ... 0), beta real; x becomes v. Parts of x that are so
// small that their squares say nothing count as 0 (x is expected to be scaled: its matrix has elements near 1).
template <class T>
T make_reflector(T* x, int64_t n, RealOf<T>* beta);

// For Q = H_0 H_1 ... H_{count-1}, reflectors whose vectors are rows of n elements (0 and 1 in front filled in): T of
// Q = I - V T V^H, upper triangular count x count, row-major.
template <class T>
void block_factor(const T* v, int64_t stride, int64_t count, int64_t n, const T* tau, T* factor);
// Rows z of Z (rows x n) become (Q z^T)^T, as row vectors: Z (I - V T V^H)^T.
template <class T>
void apply_block(const T* v, int64_t stride, int64_t count, int64_t n, const T* factor, T* z, int64_t z_stride,
                 int64_t rows);

// All of Q = H_0 H_1 ... H_{count-1} on rows of Z (rows x n): reflector k is row k of v from column k + shift on, where
// its 1 stands explicitly.
template <class T>
void apply_reflectors(const T* v, int64_t stride, int64_t count, int64_t shift, int64_t n, const T* tau, T* z,
                      int64_t z_stride, int64_t rows);

}  // namespace tessera::cpu::internal
