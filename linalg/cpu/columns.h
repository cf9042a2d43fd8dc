// Matrices that lie in columns, and the loops over them that reflections are made of, below the Tensor.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu::columns {

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

template <class T>
inline constexpr DType kDType = std::is_same_v<T, float>                 ? DType::kFloat32
                                : std::is_same_v<T, double>              ? DType::kFloat64
                                : std::is_same_v<T, std::complex<float>> ? DType::kComplex64
                                                                         : DType::kComplex128;

// fn(T{}) for the type of `t`, which is one of the four.
template <class F>
void visit_number(DType t, F&& fn) {
  switch (t) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kComplex64:
      return fn(std::complex<float>{});
    default:
      return fn(std::complex<double>{});
  }
}

template <class T>
T conjugate(T x) {
  if constexpr (kIsComplex<T>)
    return std::conj(x);
  else
    return x;
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
// |re| + |im|: as large as |x| but for a factor of 1.5, and no root.
template <class T>
Real<T> size_of(T x) {
  return std::abs(real_part(x)) + std::abs(imag_part(x));
}

template <class T>
inline constexpr Real<T> kEps = std::numeric_limits<Real<T>>::epsilon();
// Whose inverse is no overflow.
template <class T>
inline constexpr Real<T> kSafeMin = std::numeric_limits<Real<T>>::min();

// A matrix in memory; strides in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t row_stride, col_stride;

  T& operator()(int64_t i, int64_t j) const { return data[i * row_stride + j * col_stride]; }
  Matrix at(int64_t i, int64_t j) const { return {&(*this)(i, j), row_stride, col_stride}; }
  Matrix transposed() const { return {data, col_stride, row_stride}; }
  MatrixRef ref() const { return {const_cast<std::remove_const_t<T>*>(data), row_stride, col_stride}; }
};
// One whose columns are dense, `ld` elements apart.
template <class T>
Matrix<T> in_columns(T* data, int64_t ld) {
  return {data, 1, ld};
}

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

// c = beta c + alpha a b; a: m x k, b: k x n.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, Matrix<T> c) {
  if (m > 0 && n > 0) gemm(kDType<T>, m, n, k, number(alpha), a.ref(), b.ref(), number(beta), c.ref());
}
// The same with the conjugate transpose of a, which is k x m.
template <class T>
void multiply_adjoint(int64_t m, int64_t n, int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, Matrix<T> c) {
  if (m > 0 && n > 0)
    gemm(kDType<T>, m, n, k, number(alpha), a.transposed().ref(), b.ref(), number(beta), c.ref(), kIsComplex<T>, false);
}

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
