// What the emulated functions share: checks of arguments, matrices by columns for the CPU's engines, and the way into
// the stream's work.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "linalg/cpu/matrix.h"
#include "linalg/cuda/solver.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/libraries.h"
#include "tensor/cuda/emulation/memory.h"

namespace tessera::cuda::emulation {

using cpu::MatrixBatch;

inline DType dtype_of(cudaDataType t) {
  return t == CUDA_R_32F   ? DType::kFloat32
         : t == CUDA_R_64F ? DType::kFloat64
         : t == CUDA_C_32F ? DType::kComplex64
                           : DType::kComplex128;
}
inline bool is_type(cudaDataType t) { return t == CUDA_R_32F || t == CUDA_R_64F || t == CUDA_C_32F || t == CUDA_C_64F; }
template <class T>
constexpr DType kDTypeOf = std::is_same_v<T, float>       ? DType::kFloat32
                           : std::is_same_v<T, double>    ? DType::kFloat64
                           : std::is_same_v<T, cuComplex> ? DType::kComplex64
                                                          : DType::kComplex128;

// An array of a device.
inline bool is_array(const void* p, int64_t bytes) {
  return bytes == 0 || (p && device_of(p) >= 0 && is_accessible(p, static_cast<size_t>(bytes)));
}
template <class T>
bool is_array_of(const T* p, int64_t n) {
  return is_array(p, n * static_cast<int64_t>(sizeof(T)));
}
inline bool is_matrix(const void* p, DType t, int64_t rows, int64_t cols, int64_t leading, int64_t count = 1,
                      int64_t stride = 0) {
  if (rows < 0 || cols < 0 || leading < std::max<int64_t>(1, rows)) return false;
  const int64_t one = cols == 0 || rows == 0 ? 0 : (cols - 1) * leading + rows;
  return is_array(p, ((count - 1) * stride + one) * item_size(t));
}

inline MatrixBatch columns(const void* p, int64_t rows, int64_t cols, int64_t leading, int64_t count = 1,
                           int64_t stride = 0) {
  return {const_cast<void*>(p), count, rows, cols, 1, leading, stride};
}
inline MatrixBatch flipped(const MatrixBatch& m) {
  return {m.data, m.count, m.cols, m.rows, m.col_stride, m.row_stride, m.batch_stride};
}
// Matrices in memory of their own, by columns.
struct Scratch {
  std::vector<char> bytes;
  MatrixBatch m;
  Scratch(DType t, int64_t rows, int64_t cols)
      : bytes(static_cast<size_t>(std::max<int64_t>(1, rows * cols) * item_size(t))),
        m{bytes.data(), 1, rows, cols, 1, std::max<int64_t>(1, rows), 0} {}
};
// to(i, j) = from(i, j) where keep(i, j); conj: conjugated.
template <class Keep>
void assign(DType t, const MatrixBatch& to, const MatrixBatch& from, bool conj, Keep keep) {
  const int64_t item = item_size(t);
  const auto at = [&](const MatrixBatch& m, int64_t i, int64_t j) {
    return static_cast<char*>(m.data) + (i * m.row_stride + j * m.col_stride) * item;
  };
  for (int64_t j = 0; j < to.cols; ++j)
    for (int64_t i = 0; i < to.rows; ++i) {
      if (!keep(i, j)) continue;
      std::memcpy(at(to, i, j), at(from, i, j), static_cast<size_t>(item));
      if (!conj || !is_complex(t)) continue;
      if (char* const p = at(to, i, j) + item / 2; item == 8)
        *reinterpret_cast<float*>(p) = -*reinterpret_cast<float*>(p);
      else
        *reinterpret_cast<double*>(p) = -*reinterpret_cast<double*>(p);
    }
}
inline void assign(DType t, const MatrixBatch& to, const MatrixBatch& from, bool conj = false) {
  assign(t, to, from, conj, [](int64_t, int64_t) { return true; });
}

// As a kernel of one thread: it may touch device memory, and is recorded while the stream is captured.
template <class Handle, class F>
bool start(Handle handle, F f) {
  return run(stream_of(handle), dim3(1), dim3(1), 0, false, std::move(f)) == cudaSuccess;
}

// Q's reflections and the solution of A X = B on the CPU, for both libraries.
void factor_lu(DType t, const MatrixBatch& a, int32_t* pivots, int32_t* info);  // pivots may be null
void solve_lu(DType t, const MatrixBatch& lu, const int32_t* pivots, cublasOperation_t op, const MatrixBatch& b);
// Counts a call.
void count_call(const char* name);

}  // namespace tessera::cuda::emulation
