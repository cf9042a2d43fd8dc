// Solutions of small systems one by one, rows of what is solved for in vectors: where there are enough columns to fill
// these, nothing has to be brought to lanes and back.
#pragma once

#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu::factor {

// Whether solutions of that form are made that way: of many equations, and more where rows are to be made of columns.
template <class T>
bool goes_by_rows(const MatrixBatch& b) {
  const int64_t vector = group_size<T>() / kParts<T>;
  if (b.count == 1 || b.rows > kBlock || b.cols > kBlock || b.cols < vector) return false;
  return b.col_stride == 1 ? b.rows * b.cols >= 16 * vector : b.rows * b.cols >= 32 * vector && b.rows >= vector;
}

// x = A^-1 from, of `width` columns, for a triangle of n <= kBlock rows and any strides. from and x, which may be the
// same, have dense rows; row i of what is solved is row order[i] of `from` (null: i), of lower triangles alone.
template <class T>
void solve_small(int64_t n, int64_t width, const Matrix<const T>& a, TriangularForm form, const Matrix<const T>& from,
                 const int32_t* order, const Matrix<T>& x);

// f(k, from, x) for each matrix of b: x is to be made of `from`, as solve_small takes them. Dense columns are turned to
// rows and back.
template <class T, class F>
void for_rows_of(const MatrixBatch& b, double operations, F&& f) {
  const int64_t n = b.rows, width = b.cols;
  for_matrices(b.count, operations, [&](int64_t k) {
    const Matrix<T> to = matrix_of<T>(b, k);
    const Matrix<T> from = to.over(source_of<T>(b, k).data);
    if (to.col_stride == 1) return f(k, from.reading(), to);
    const ScratchArray<T> memory(n * width);
    const Matrix<T> rows = in_rows(memory.get(), width);
    copy_matrix(n, width, from, rows);
    f(k, rows.reading(), rows);
    copy_matrix(n, width, rows, to);
  });
}

}  // namespace tessera::cpu::factor
