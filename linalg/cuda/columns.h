// Matrices as NVIDIA's libraries read them: by columns. The operators' matrices lie by rows, as a rule; this is the one
// place where that is dealt with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "linalg/cpu/matrix.h"
#include "tensor/core/dtype.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

using cpu::MatrixBatch;

// Element (i, j) of matrix b: data + b stride + i + j leading, in elements.
struct Columns {
  DType dtype;
  void* data;
  int64_t count, rows, cols, leading, stride;

  void* at(int64_t b) const { return static_cast<char*>(data) + b * stride * item_size(dtype); }
  MatrixBatch batch() const { return {data, count, rows, cols, 1, leading, stride}; }
};

// Whether `columns_of` can say where they are.
inline bool has_columns(const MatrixBatch& m) {
  return (m.row_stride == 1 || m.rows == 1) &&
         (m.cols == 1 || (m.col_stride >= std::max<int64_t>(1, m.rows) && m.batch_stride >= 0));
}
inline Columns columns_of(DType dtype, const MatrixBatch& m) {
  return {dtype,
          m.data,
          m.count,
          m.rows,
          m.cols,
          m.cols == 1 ? std::max<int64_t>(1, m.rows) : m.col_stride,
          m.count == 1 ? 0 : m.batch_stride};
}

// Of equal shapes.
void copy_matrices(DType dtype, const MatrixBatch& to, const MatrixBatch& from, bool conj = false);

// Matrices in memory of their own, one behind the other. Empty ones have room for an element.
class OwnColumns {
 public:
  OwnColumns() = default;
  OwnColumns(DType dtype, int64_t count, int64_t rows, int64_t cols)
      : buffer_(static_cast<size_t>(std::max<int64_t>(1, count * rows * cols) * item_size(dtype))),
        columns_{dtype, buffer_.get(), count, rows, cols, std::max<int64_t>(1, rows), rows * cols} {}
  // A copy.
  OwnColumns(DType dtype, const MatrixBatch& m, bool conj = false) : OwnColumns(dtype, m.count, m.rows, m.cols) {
    copy_matrices(dtype, columns_.batch(), m, conj);
  }
  const Columns* operator->() const { return &columns_; }
  const Columns& operator*() const { return columns_; }

 private:
  Buffer buffer_;
  Columns columns_{};
};

// m by columns: where it lies, or a copy, which finish() writes back. conj: conj(m) is worked on.
class InColumns {
 public:
  InColumns(DType dtype, const MatrixBatch& m, bool conj = false) : of_(m), conj_(conj && is_complex(dtype)) {
    copied_ = conj_ || !has_columns(m);
    if (copied_) {
      // One matrix that serves all is copied once.
      MatrixBatch from = m;
      if (m.batch_stride == 0) from.count = std::min<int64_t>(1, m.count);
      own_ = OwnColumns(dtype, from, conj_);
      columns_ = *own_;
      columns_.count = m.count;
      if (m.batch_stride == 0) columns_.stride = 0;
    } else {
      columns_ = columns_of(dtype, m);
    }
  }
  const Columns* operator->() const { return &columns_; }
  const Columns& operator*() const { return columns_; }
  void finish() const {
    if (copied_) copy_matrices(columns_.dtype, of_, columns_.batch(), conj_);
  }

 private:
  MatrixBatch of_;
  bool conj_, copied_;
  OwnColumns own_;
  Columns columns_;
};

// The addresses of the matrices, on the device; of `step` elements between them.
Buffer addresses(DType dtype, void* data, int64_t count, int64_t step);
inline Buffer addresses(const Columns& c) { return addresses(c.dtype, c.data, c.count, c.stride); }

}  // namespace tessera::cuda
