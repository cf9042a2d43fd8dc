// Kernels of matrix products that cuBLAS does not have.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cuda::internal {

using cpu::MatrixRef;

// `batch` products of one kind. Batch strides in elements.
struct Products {
  int64_t batch, m, n, k;
  KernelParam alpha, beta;
  MatrixRef a, b, c;
  int64_t a_batch, b_batch, c_batch;
  bool conj_a = false, conj_b = false;
};

// Bool and integers, any strides.
void gemm_integer(DType dtype, const Products& p);

// c = beta c + alpha sum, rounded once. sum: contiguous (batch, m, n) in the dtype that `dtype` is computed in (float32
// for reduced floats, complex64 for complex32), or null for 0.
void combine(DType dtype, const Products& p, const void* sum);

}  // namespace tessera::cuda::internal
