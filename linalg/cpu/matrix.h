// Matrices in memory, as engines of linear algebra are told of them.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Equally many rows and columns in each of `count` matrices; strides in elements. Element (i, j) of matrix b stands at
// data + b batch_stride + i row_stride + j col_stride. What engines write has dense rows (col_stride 1, or row_stride
// 1: its transpose); what they only read may have any strides, a batch_stride of 0 too.
// from: where, with the same strides, stands what an engine is to write over, if it isn't at data yet, so that it is
// read once. Null: at data; so it is always but for engines that say that they look there.
struct MatrixBatch {
  void* data;
  int64_t count, rows, cols;
  int64_t row_stride, col_stride, batch_stride;
  const void* from = nullptr;
};
inline MatrixBatch transposed(const MatrixBatch& m) {
  return {m.data, m.count, m.cols, m.rows, m.col_stride, m.row_stride, m.batch_stride, m.from};
}

}  // namespace tessera::cpu
