// Matrix products below the Tensor.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

// A matrix of `rows` x `cols` elements with strides in elements: any of row-major, column-major, transposed, strided
// views.
struct MatrixRef {
  void* data;
  int64_t row_stride;
  int64_t col_stride;
};

// c = beta * c + alpha * a b,  a: m x k, b: k x n, c: m x n, one dtype for all (bool and all compute dtypes;
// float16/bfloat16 accumulate in float32 and round once). beta == 0 does not read c (NaN there does not matter).
// alpha/beta by category of dtype (KernelParam). conj_a/conj_b: conjugate complex operands on the fly. Deterministic:
// the same bits for any number of threads. k == 0 gives beta * c.
void gemm(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a, MatrixRef b, KernelParam beta,
          MatrixRef c, bool conj_a = false, bool conj_b = false);

// What is wanted of c: all, or what is on its diagonal and below (above) it. The rest is then anything between what it
// was and what it would be.
enum class GemmPart : uint8_t { kAll, kLower, kUpper };

// The same for float32, float64, complex64 and complex128 alone: who has no others does not link their kernels.
void gemm_wide(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a, MatrixRef b,
               KernelParam beta, MatrixRef c, bool conj_a = false, bool conj_b = false, GemmPart part = GemmPart::kAll);

// `batch` independent products; batch strides in elements (0 broadcasts).
void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a,
                  int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride, KernelParam beta, MatrixRef c,
                  int64_t c_batch_stride, bool conj_a = false, bool conj_b = false);

// sum_i x_i y_i (conj_x: of conj(x_i)), strides in elements, result written to *out in dtype.
void dot(DType dtype, int64_t n, const void* x, int64_t x_stride, const void* y, int64_t y_stride, bool conj_x,
         void* out);

}  // namespace tessera::cpu
