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

// The largest of many parts, nan or infinity if one is, in sums that do not wait for each other.
template <class T>
class LargestPart {
 public:
  using R = Real<T>;

  // `count` numbers, `stride` apart.
  void take(const T* x, int64_t count, int64_t stride) {
    int64_t i = 0;
    for (; i + kWays <= count; i += kWays)
      for (int64_t way = 0; way < kWays; ++way) add(way, largest_part(x[(i + way) * stride]));
    for (; i < count; ++i) add(0, largest_part(x[i * stride]));
  }
  void add(int64_t way, R v) {
    most_[way] = std::max(most_[way], v);
    wrong_[way] += v - v;  // 0 for finite numbers alone
  }
  R result() const {
    R most = 0;
    for (int64_t way = 0; way < kWays; ++way) most = std::max(most, most_[way]);
    for (int64_t way = 0; way < kWays; ++way) most += wrong_[way];
    return most;
  }

 private:
  static constexpr int64_t kWays = 8;
  R most_[kWays] = {}, wrong_[kWays] = {};
};

// The largest part of an element that is read.
template <class T>
Real<T> largest_part(const Matrix<T>& a, int64_t rows, int64_t cols) {
  LargestPart<T> all;
  if (a.row_stride == 1)
    for (int64_t j = 0; j < cols; ++j) all.take(&a(0, j), rows, 1);
  else
    for (int64_t i = 0; i < rows; ++i) all.take(&a(i, 0), cols, a.col_stride);
  return all.result();
}
template <class T>
Real<T> largest_part_of_triangle(const Matrix<T>& given, int64_t n, bool lower) {
  const bool by_columns = given.row_stride == 1;
  const Matrix<T> a = by_columns ? given.transposed() : given;
  LargestPart<T> all;
  for (int64_t i = 0; i < n; ++i) {
    all.add(0, std::abs(real_part(a(i, i))));
    if (lower != by_columns)
      all.take(&a(i, 0), i, a.col_stride);
    else
      all.take(&a(i, i) + a.col_stride, n - i - 1, a.col_stride);
  }
  return all.result();
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
