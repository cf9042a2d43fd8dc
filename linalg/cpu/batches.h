// Matrices of a type in memory, and how work on batches of them is handed out.
#pragma once

#include <algorithm>

#include "linalg/cpu/matrix.h"
#include "linalg/cpu/numbers.h"
#include "tensor/core/parallel.h"

// Before loops over registers: what these index is in memory unless they are unrolled.
#define TESSERA_UNROLL _Pragma("GCC unroll 16")

namespace tessera::cpu::numbers {

// A matrix in memory; strides in elements.
template <class T>
struct Matrix {
  T* data;
  int64_t row_stride, col_stride;

  T& operator()(int64_t i, int64_t j) const { return data[i * row_stride + j * col_stride]; }
  // What begins there.
  Matrix at(int64_t i, int64_t j) const { return {&(*this)(i, j), row_stride, col_stride}; }
  Matrix transposed() const { return {data, col_stride, row_stride}; }
  Matrix<const T> reading() const { return {data, row_stride, col_stride}; }
  // Of the same strides elsewhere.
  Matrix over(const T* elements) const { return {const_cast<T*>(elements), row_stride, col_stride}; }
  MatrixRef ref() const { return {const_cast<std::remove_const_t<T>*>(data), row_stride, col_stride}; }
};
// One whose columns are dense, `ld` elements apart; and one whose rows are.
template <class T>
Matrix<T> in_columns(T* data, int64_t ld) {
  return {data, 1, ld};
}
template <class T>
Matrix<T> in_rows(T* data, int64_t ld) {
  return {data, ld, 1};
}

// c = beta c + alpha a b; a: m x k, b: k x n.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, Matrix<T> c) {
  if (m > 0 && n > 0) gemm_wide(kDType<T>, m, n, k, number(alpha), a.ref(), b.ref(), number(beta), c.ref());
}
// The same with the conjugate transpose of a, which is k x m.
template <class T>
void multiply_adjoint(int64_t m, int64_t n, int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, Matrix<T> c) {
  if (m > 0 && n > 0)
    gemm_wide(kDType<T>, m, n, k, number(alpha), a.transposed().ref(), b.ref(), number(beta), c.ref(), kIsComplex<T>,
              false);
}

template <class T>
Matrix<T> matrix_of(const MatrixBatch& m, int64_t i) {
  return {static_cast<T*>(m.data) + i * m.batch_stride, m.row_stride, m.col_stride};
}
using cpu::transposed;
// fn(i) for each of `count` matrices on which so many operations are spent: a matrix a thread, or, where each is worth
// it, one after the other with all threads for its products.
template <class F>
void for_matrices(int64_t count, double operations, F&& fn) {
  constexpr double kLarge = 3e7, kPiece = 5e4;
  if (count == 1 || operations > kLarge) {
    for (int64_t i = 0; i < count; ++i) fn(i);
    return;
  }
  const auto grain = static_cast<int64_t>(std::max(1.0, kPiece / std::max(1.0, operations)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

// Small matrices go by groups, one in each of the `lanes` of vectors, where there are many.
inline bool goes_by_groups(int64_t lanes, int64_t count, int64_t rows, int64_t cols) {
  return std::max(rows, cols) <= 64 && 2 * count >= lanes;
}
// Calls f(first, count) for groups of `lanes` of them.
template <class F>
void for_groups(int64_t lanes, int64_t count, int64_t rows, int64_t cols, F&& f) {
  const int64_t groups = (count + lanes - 1) / lanes, elements = std::max<int64_t>(rows * cols, 1);
  const int64_t grain = std::max<int64_t>(1, 50000 / (elements * (32 + std::min(rows, cols))));
  parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) f(g * lanes, std::min(lanes, count - g * lanes));
  });
}
// Where the matrices of a group are: element (i, j) of matrix b at data + b step + i row + j col.
template <class T>
struct Group {
  T* data;
  int64_t step, row, col;
};
template <class T>
Group<T> group_of(const MatrixBatch& m, int64_t first) {
  return {matrix_of<T>(m, first).data, m.batch_stride, m.row_stride, m.col_stride};
}
// And what they were.
template <class T>
Group<const T> source_of(const MatrixBatch& m, int64_t first) {
  const void* const data = m.from ? m.from : m.data;
  return {static_cast<const T*>(data) + first * m.batch_stride, m.batch_stride, m.row_stride, m.col_stride};
}
// That of one matrix, where `from` says; null: the matrix itself.
template <class T>
const T* elsewhere(const MatrixBatch& m, int64_t i) {
  return m.from ? source_of<T>(m, i).data : nullptr;
}

// to = from, both with dense rows, or both with dense columns.
template <class T>
[[gnu::noinline]] void bring_matrix(int64_t rows, int64_t cols, Matrix<T> from, Matrix<T> to) {
  const bool by_rows = cols == 1 ? to.row_stride != 1 : to.col_stride == 1;
  const int64_t lines = by_rows ? rows : cols, length = by_rows ? cols : rows,
                step = by_rows ? to.row_stride : to.col_stride;
  parallel_ranges(lines, 32768 / (length + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(from.data + i * step, length, to.data + i * step);
  });
}
// What `from` says is brought to data.
template <class T>
void bring(const MatrixBatch& m) {
  if (!m.from) return;
  for_matrices(m.count, m.rows * m.cols, [&](int64_t b) {
    const Matrix<T> to = matrix_of<T>(m, b);
    bring_matrix(m.rows, m.cols, to.over(source_of<T>(m, b).data), to);
  });
}

}  // namespace tessera::cpu::numbers
