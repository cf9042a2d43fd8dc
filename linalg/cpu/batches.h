// How work on batches of matrices is handed out.
#pragma once

#include <algorithm>

#include "linalg/cpu/columns.h"
#include "linalg/cpu/matrix.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu::columns {

template <class T>
Matrix<T> matrix_of(const MatrixBatch& m, int64_t i) {
  return {static_cast<T*>(m.data) + i * m.batch_stride, m.row_stride, m.col_stride};
}

// fn(i) for each of `count` matrices on which so many operations are spent.
template <class F>
void for_matrices(int64_t count, double operations, F&& fn) {
  // A large one has all threads for its products.
  if (operations > 1e8) {
    for (int64_t i = 0; i < count; ++i) fn(i);
    return;
  }
  const auto grain = static_cast<int64_t>(std::max(1.0, 30000 / std::max(1.0, operations)));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

}  // namespace tessera::cpu::columns
