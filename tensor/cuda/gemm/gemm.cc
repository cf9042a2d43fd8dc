// Matrix products through cuBLAS. It takes matrices whose rows or columns lie dense; others are copied first.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/blas_lt.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/gemm/gemm_kernels.h"

namespace tessera::cuda {
namespace {

using cpu::MatrixRef;
using cpu::Operand;
using internal::Products;

bool is_zero(DType t, const KernelParam& p) {
  if (is_complex(t)) return p.c[0] == 0 && p.c[1] == 0;
  return is_floating_point(t) ? p.f == 0 : p.i == 0;
}

// C^T = B^T A^T.
void transpose(Products& p) {
  const auto flip = [](MatrixRef x) { return MatrixRef{x.data, x.col_stride, x.row_stride}; };
  std::swap(p.m, p.n);
  std::swap(p.conj_a, p.conj_b);
  std::swap(p.a_batch, p.b_batch);
  const MatrixRef a = p.a;
  p.a = flip(p.b);
  p.b = flip(a);
  p.c = flip(p.c);
}

// How cuBLAS reads a matrix: column-major as it is, or as the transpose of a column-major one.
struct Reading {
  cublasOperation_t op;
  int64_t leading;
};
bool dense_columns(const MatrixRef& x, int64_t rows, int64_t cols) {
  return (x.row_stride == 1 || rows == 1) && (cols == 1 || x.col_stride >= std::max<int64_t>(1, rows));
}
std::optional<Reading> reading_of(const MatrixRef& x, int64_t rows, int64_t cols, bool conj) {
  if (!conj && dense_columns(x, rows, cols))
    return Reading{CUBLAS_OP_N, cols == 1 ? std::max<int64_t>(1, rows) : x.col_stride};
  const MatrixRef flipped{x.data, x.col_stride, x.row_stride};
  if (dense_columns(flipped, cols, rows))
    return Reading{conj ? CUBLAS_OP_C : CUBLAS_OP_T, rows == 1 ? std::max<int64_t>(1, cols) : x.row_stride};
  return std::nullopt;
}

// An operand ready for cuBLAS: where it lies, or a copy of it.
struct Source {
  const void* data;
  Reading reading;
  int64_t batch_stride;
  Buffer copy;
};
Source source_of(DType dtype, const MatrixRef& x, int64_t batch, int64_t rows, int64_t cols, int64_t batch_stride,
                 bool conj) {
  if (batch_stride >= 0)
    if (const auto r = reading_of(x, rows, cols, conj)) return {x.data, *r, batch_stride, Buffer()};
  const int64_t item = item_size(dtype), count = batch_stride == 0 ? 1 : batch;
  Source s{nullptr,
           {CUBLAS_OP_N, std::max<int64_t>(1, rows)},
           batch_stride == 0 ? 0 : rows * cols,
           Buffer(static_cast<size_t>(count * rows * cols * item))};
  s.data = s.copy.get();
  const std::array<int64_t, 3> shape{count, cols, rows};
  const std::array<int64_t, 3> to{rows * cols * item, rows * item, item},
      from{batch_stride * item, x.col_stride * item, x.row_stride * item};
  cuda::copy_strided(shape, Operand{s.copy.get(), dtype, to.data()}, Operand{x.data, dtype, from.data()}, conj, false);
  return s;
}

cudaDataType_t blas_type(DType t) {
  switch (t) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat64:
      return CUDA_R_64F;
    case DType::kComplex64:
      return CUDA_C_32F;
    default:
      return CUDA_C_64F;
  }
}
DType compute_type(DType t) {
  if (is_reduced_float(t)) return DType::kFloat32;
  return t == DType::kComplex32 ? DType::kComplex64 : t;
}

union BlasScalar {
  float f[2];
  double d[2];
};
BlasScalar blas_scalar(DType compute, const KernelParam& p) {
  BlasScalar s{};
  const double re = is_complex(compute) ? p.c[0] : p.f, im = is_complex(compute) ? p.c[1] : 0;
  if (compute == DType::kFloat64 || compute == DType::kComplex128) {
    s.d[0] = re;
    s.d[1] = im;
  } else {
    s.f[0] = static_cast<float>(re);
    s.f[1] = static_cast<float>(im);
  }
  return s;
}
KernelParam real_param(DType t, double v) {
  KernelParam p;
  if (is_complex(t)) {
    p.c[0] = v;
    p.c[1] = 0;
  } else {
    p.f = v;
  }
  return p;
}

cublasComputeType_t compute_mode(DType t) {
  if (t == DType::kFloat64 || t == DType::kComplex128) return CUBLAS_COMPUTE_64F;
  return (t == DType::kFloat32 || t == DType::kComplex64) && blas_settings().allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                                        : CUBLAS_COMPUTE_32F;
}
cublasMath_t math_mode(DType t) {
  const BlasSettings s = blas_settings();
  const bool exact_sums = (t == DType::kFloat16 && !s.allow_fp16_reduced_precision) ||
                          (t == DType::kBFloat16 && !s.allow_bf16_reduced_precision);
  return exact_sums ? CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION : CUBLAS_DEFAULT_MATH;
}

// C has dense columns; its elements are of c_type: dtype or the one it is computed in.
void run_blas(DType dtype, DType c_type, const Products& p) {
  const Source a = source_of(dtype, p.a, p.batch, p.m, p.k, p.a_batch, p.conj_a),
               b = source_of(dtype, p.b, p.batch, p.k, p.n, p.b_batch, p.conj_b);
  const DType compute = compute_type(dtype);
  const BlasScalar alpha = blas_scalar(compute, p.alpha), beta = blas_scalar(compute, p.beta);
  const cudaDataType_t in = blas_type(dtype), out = blas_type(c_type);
  const int64_t c_leading = p.n == 1 ? std::max<int64_t>(1, p.m) : p.c.col_stride;
  const cublasHandle_t handle = blas_handle();
  check_blas(blas().set_math_mode(handle, math_mode(dtype)), "cublasSetMathMode");
  if (p.batch == 1)
    check_blas(
        blas().gemm(handle, a.reading.op, b.reading.op, p.m, p.n, p.k, &alpha, a.data, in, a.reading.leading, b.data,
                    in, b.reading.leading, &beta, p.c.data, out, c_leading, compute_mode(dtype), CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  else
    check_blas(blas().gemm_strided_batched(handle, a.reading.op, b.reading.op, p.m, p.n, p.k, &alpha, a.data, in,
                                           a.reading.leading, a.batch_stride, b.data, in, b.reading.leading,
                                           b.batch_stride, &beta, p.c.data, out, c_leading, p.c_batch, p.batch,
                                           compute_mode(dtype), CUBLAS_GEMM_DEFAULT),
               "cublasGemmStridedBatchedEx");
}

// alpha a b as a contiguous (batch, m, n) in the compute dtype, then into c.
void run_through_sum(DType dtype, const Products& p) {
  const DType compute = compute_type(dtype);
  const Buffer sum(static_cast<size_t>(p.batch * p.m * p.n * item_size(compute)));
  Products product = p;
  product.alpha = real_param(compute, 1);
  product.beta = real_param(compute, 0);
  product.c = {sum.get(), p.n, 1};
  product.c_batch = p.m * p.n;
  transpose(product);
  run_blas(dtype, compute, product);
  internal::combine(dtype, p, sum.get());
}

// The contiguous complex64 copy of a complex32 operand.
Buffer widen(MatrixRef& x, int64_t& batch_stride, int64_t batch, int64_t rows, int64_t cols) {
  const int64_t count = batch_stride == 0 ? 1 : batch, from_item = item_size(DType::kComplex32),
                to_item = item_size(DType::kComplex64);
  Buffer wide(static_cast<size_t>(count * rows * cols * to_item));
  const std::array<int64_t, 3> shape{count, rows, cols};
  const std::array<int64_t, 3> to{rows * cols * to_item, cols * to_item, to_item},
      from{batch_stride * from_item, x.row_stride * from_item, x.col_stride * from_item};
  cuda::copy_strided(shape, Operand{wide.get(), DType::kComplex64, to.data()},
                     Operand{x.data, DType::kComplex32, from.data()}, false, false);
  x = {wide.get(), cols, 1};
  batch_stride = batch_stride == 0 ? 0 : rows * cols;
  return wide;
}
void run_complex_half(const Products& p) {
  Products wide = p;
  const Buffer a = widen(wide.a, wide.a_batch, p.batch, p.m, p.k), b = widen(wide.b, wide.b_batch, p.batch, p.k, p.n);
  const Buffer sum(static_cast<size_t>(p.batch * p.m * p.n * item_size(DType::kComplex64)));
  wide.alpha = real_param(DType::kComplex64, 1);
  wide.beta = real_param(DType::kComplex64, 0);
  wide.c = {sum.get(), p.n, 1};
  wide.c_batch = p.m * p.n;
  transpose(wide);
  run_blas(DType::kComplex64, DType::kComplex64, wide);
  internal::combine(DType::kComplex32, p, sum.get());
}

void run(DType dtype, Products p) {
  TESSERA_CHECK(p.batch >= 0 && p.m >= 0 && p.n >= 0 && p.k >= 0, "gemm: sizes must not be negative, got ", p.m, " x ",
                p.k, " times ", p.k, " x ", p.n, " (batch ", p.batch, ")");
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (dtype <= DType::kUInt64) return internal::gemm_integer(dtype, p);
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype <= DType::kComplex128, "gemm is not implemented for dtype ", name_of(dtype));
  if (p.k == 0 || is_zero(dtype, p.alpha)) return internal::combine(dtype, p, nullptr);
  if (dtype == DType::kComplex32) return run_complex_half(p);
  if (!dense_columns(p.c, p.m, p.n)) transpose(p);
  if (!dense_columns(p.c, p.m, p.n) || p.c_batch < 0) return run_through_sum(dtype, p);
  run_blas(dtype, dtype, p);
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a, MatrixRef b, KernelParam beta,
          MatrixRef c, bool conj_a, bool conj_b) {
  run(dtype, {1, m, n, k, alpha, beta, a, b, c, 0, 0, 0, conj_a, conj_b});
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a,
                  int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride, KernelParam beta, MatrixRef c,
                  int64_t c_batch_stride, bool conj_a, bool conj_b) {
  Products p{batch, m, n, k, alpha, beta, a, b, c, a_batch_stride, b_batch_stride, c_batch_stride, conj_a, conj_b};
  // One matrix B for all: the rows of A and C follow each other.
  if (batch > 1 && b_batch_stride == 0 && a_batch_stride == m * a.row_stride && c_batch_stride == m * c.row_stride) {
    p.m = m * batch;
    p.batch = 1;
  }
  run(dtype, p);
}

bool gemm_bias(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, const MatrixRef& a0,
               const MatrixRef& b0, const void* bias, GemmActivation activation, const MatrixRef& c) {
  const bool floats = dtype == DType::kFloat32 || is_reduced_float(dtype);
  // Vectors are for the ordinary product.
  if (!floats || m <= 0 || n <= 1 || k <= 1 || c.col_stride != 1 || c.row_stride < n || !find_blas_lt()) return false;
  // c^T = b^T a^T, column-major.
  const auto flip = [](const MatrixRef& x) { return MatrixRef{x.data, x.col_stride, x.row_stride}; };
  const Source a = source_of(dtype, flip(b0), 1, n, k, 0, false), b = source_of(dtype, flip(a0), 1, k, m, 0, false);
  const cudaDataType_t t = blas_type(dtype);
  LtProduct p{.m = n,
              .n = m,
              .k = k,
              .a = {a.data, t, a.reading.op, a.reading.leading},
              .b = {b.data, t, b.reading.op, b.reading.leading},
              .d = c.data,
              .d_type = t,
              .c_type = t,
              .d_leading = c.row_stride};
  p.compute = compute_mode(dtype);
  p.alpha = static_cast<float>(alpha.f);
  p.epilogue = activation == GemmActivation::kRelu       ? CUBLASLT_EPILOGUE_RELU_BIAS
               : activation == GemmActivation::kTanhGelu ? CUBLASLT_EPILOGUE_GELU_BIAS
                                                         : CUBLASLT_EPILOGUE_BIAS;
  p.bias = bias;
  p.bias_type = t;
  p.reduced_reduction = math_mode(dtype) == CUBLAS_DEFAULT_MATH;
  return lt_product(p);
}

}  // namespace tessera::cuda
