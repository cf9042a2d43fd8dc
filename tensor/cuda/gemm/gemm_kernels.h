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
// Those of bytes, modulo 2^8 into bytes or modulo 2^32 into int32, by tensor cores. b is signed, where that matters.
void gemm_bytes(const Products& p, bool into_int32, bool a_unsigned);

// The same for kernels. Element strides; one struct for all widths.
struct IntProduct {
  int64_t batch, m, n, k;
  int64_t a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_col, c_batch;
  int64_t alpha, beta;
};
inline IntProduct int_product(const Products& p) {
  return {p.batch,
          p.m,
          p.n,
          p.k,
          p.a.row_stride,
          p.a.col_stride,
          p.a_batch,
          p.b.row_stride,
          p.b.col_stride,
          p.b_batch,
          p.c.row_stride,
          p.c.col_stride,
          p.c_batch,
          p.alpha.i,
          p.beta.i};
}

// c = beta c + alpha sum, rounded once. sum: contiguous (batch, m, n) in the dtype that `dtype` is computed in (float32
// for reduced floats, complex64 for complex32), or null for 0.
void combine(DType dtype, const Products& p, const void* sum);

}  // namespace tessera::cuda::internal
