// Matrices as kernels see them.
#pragma once

#include <cstdint>

#include "linalg/cpu/matrix.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

template <class T>
struct View {
  T* data;
  int64_t rows, cols, row_stride, col_stride, batch_stride;
  explicit View(const cpu::MatrixBatch& m)
      : data(static_cast<T*>(m.data)),
        rows(m.rows),
        cols(m.cols),
        row_stride(m.row_stride),
        col_stride(m.col_stride),
        batch_stride(m.batch_stride) {}
  __device__ T& operator()(int64_t b, int64_t i, int64_t j) const {
    return data[b * batch_stride + i * row_stride + j * col_stride];
  }
};

template <class R>
__device__ inline R conjugate(R x) {
  return x;
}
template <class R>
__device__ inline Complex<R> conjugate(const Complex<R>& x) {
  return Complex<R>(x.real(), -x.imag());
}

}  // namespace tessera::cuda
