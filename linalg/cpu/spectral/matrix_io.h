// How engines read matrices of any strides, and write them.
#pragma once

#include <algorithm>
#include <cmath>

#include "linalg/cpu/matrix.h"
#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

template <class T>
struct Strided {
  T* data;
  int64_t row, col;
  T& operator()(int64_t i, int64_t j) const { return data[i * row + j * col]; }
};
template <class T>
Strided<T> matrix_of(const MatrixBatch& b, int64_t k) {
  return {static_cast<T*>(b.data) + k * b.batch_stride, b.row_stride, b.col_stride};
}

// to[i * stride + j] = fn(from(i, j)), in blocks that stay in cache whichever of the strides is 1.
template <class T, class F>
void read_rows(const Strided<T>& from, int64_t rows, int64_t cols, T* to, int64_t stride, F fn) {
  if (from.col == 1 || rows == 1) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) to[i * stride + j] = fn(from(i, j));
    return;
  }
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < cols; j0 += kTile)
      for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i)
        for (int64_t j = j0; j < std::min(cols, j0 + kTile); ++j) to[i * stride + j] = fn(from(i, j));
}
// to(i, j) = fn(from[i * stride + j]).
template <class S, class T, class F>
void write_rows(const S* from, int64_t stride, int64_t rows, int64_t cols, const Strided<T>& to, F fn) {
  if (to.col == 1 || rows == 1) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) to(i, j) = fn(from[i * stride + j]);
    return;
  }
  constexpr int64_t kTile = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < cols; j0 += kTile)
      for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i)
        for (int64_t j = j0; j < std::min(cols, j0 + kTile); ++j) to(i, j) = fn(from[i * stride + j]);
}

template <class T>
RealOf<T> largest_part(T x) {
  if constexpr (ElementTraits<T>::kComplex)
    return std::max(std::abs(x.real()), std::abs(x.imag()));
  else
    return std::abs(x);
}

// The largest part of an element that is read, nan or infinity if one is. upper: of column j those from row 0 to j.
template <class T>
RealOf<T> largest_part(const Strided<T>& a, int64_t rows, int64_t cols) {
  using R = RealOf<T>;
  R largest = 0, wrong = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const R v = largest_part(a(i, j));
      largest = std::max(largest, v);
      wrong += v - v;  // 0 for finite numbers alone
    }
  return largest + wrong;
}
template <class T>
RealOf<T> largest_part_of_triangle(const Strided<T>& a, int64_t n, bool lower) {
  using R = RealOf<T>;
  R largest = 0, wrong = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); ++j) {
      const R v = i == j ? std::abs(real_of(a(i, j))) : largest_part(a(i, j));
      largest = std::max(largest, v);
      wrong += v - v;
    }
  return largest + wrong;
}

// A power of two that brings numbers of up to `largest` near 1, where their squares neither vanish nor overflow.
template <class R>
R scale_for(R largest) {
  if (largest == 0) return 1;
  int exponent;
  std::frexp(largest, &exponent);
  // Its inverse has to be a number, too.
  exponent = std::clamp(exponent, std::numeric_limits<R>::min_exponent + 2, std::numeric_limits<R>::max_exponent - 2);
  return exponent > -8 && exponent < 8 ? R{1} : std::ldexp(R{1}, -exponent);
}

// fn(k) for each of `count` matrices on which `work` operations are done: together where they are many, one after the
// other where each is worth several threads.
template <class F>
void for_matrices(int64_t count, double work, F&& fn) {
  if (count == 1 || work > 3e7) {
    for (int64_t k = 0; k < count; ++k) fn(k);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(5e4 / (work + 1)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) fn(k);
  });
}

// Calls fn with a value of each type of elements.
template <class F>
void visit_element(DType dtype, F&& fn) {
  switch (dtype) {
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

}  // namespace tessera::cpu::internal
