// How engines read matrices of any strides, and write them.
#pragma once

#include <algorithm>
#include <cmath>

#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

// to[i * stride + j] = fn(from(i, j)), in blocks that stay in cache whichever of the strides is 1.
template <class T, class F>
void read_rows(const Matrix<T>& from, int64_t rows, int64_t cols, T* to, int64_t stride, F fn) {
  if (from.col_stride == 1 || rows == 1) {
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
void write_rows(const S* from, int64_t stride, int64_t rows, int64_t cols, const Matrix<T>& to, F fn) {
  if (to.col_stride == 1 || rows == 1) {
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
Real<T> largest_part(T x) {
  if constexpr (kIsComplex<T>)
    return std::max(std::abs(x.real()), std::abs(x.imag()));
  else
    return std::abs(x);
}

// The largest part of an element that is read, nan or infinity if one is. upper: of column j those from row 0 to j.
template <class T>
Real<T> largest_part(const Matrix<T>& a, int64_t rows, int64_t cols) {
  using R = Real<T>;
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
Real<T> largest_part_of_triangle(const Matrix<T>& a, int64_t n, bool lower) {
  using R = Real<T>;
  R largest = 0, wrong = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); ++j) {
      const R v = i == j ? std::abs(real_part(a(i, j))) : largest_part(a(i, j));
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

}  // namespace tessera::cpu::internal
