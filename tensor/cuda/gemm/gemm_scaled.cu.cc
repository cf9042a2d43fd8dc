// Products of 8-bit floats: by cuBLASLt where it has them, else in float32, which holds the operands exactly.
#include <array>

#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/blas_lt.h"
#include "tensor/cuda/support/convert.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/pointwise/engines.h"

namespace tessera::cuda {
namespace {

using cpu::MatrixRef;
using cpu::Operand;
using cpu::ScaledProduct;

// c = (sum scale_a scale_b + bias) scale_result
struct Finish {
  const float* sum;
  int64_t n;
  const float *scale_a, *scale_b, *scale_result;
  bool by_lines;
  const char* bias;
  DType bias_type, c_type;
  int64_t bias_item, c_item;
  char* c;
  __device__ void operator()(int64_t at) const {
    const int64_t i = at / n, j = at - i * n;
    float v = sum[at] * (scale_a[by_lines ? i : 0] * scale_b[by_lines ? j : 0]);
    if (bias) v += real_part<float>(read_number(bias + j * bias_item, bias_type));
    if (scale_result) v *= *scale_result;
    write_number(c + at * c_item, c_type, Number{Number::kReal, 0, v, 0});
  }
};

Buffer floats_of(int64_t rows, int64_t cols, const MatrixRef& x, DType t) {
  Buffer r(static_cast<size_t>(rows * cols * 4));
  const std::array<int64_t, 2> shape{rows, cols}, to{cols * 4, 4},
      from{x.row_stride * item_size(t), x.col_stride * item_size(t)};
  cuda::copy_strided(shape, Operand{r.get(), DType::kFloat32, to.data()}, Operand{x.data, t, from.data()}, false,
                     false);
  return r;
}

// 8-bit floats that cuBLASLt multiplies, else CUDA_R_32F.
cudaDataType_t lt_type(DType t) {
  return t == DType::kFloat8_e4m3fn ? CUDA_R_8F_E4M3 : t == DType::kFloat8_e5m2 ? CUDA_R_8F_E5M2 : CUDA_R_32F;
}
cudaDataType_t result_type(DType t) {
  return t == DType::kBFloat16  ? CUDA_R_16BF
         : t == DType::kFloat16 ? CUDA_R_16F
         : t == DType::kFloat32 ? CUDA_R_32F
                                : lt_type(t);
}

// As c^T = b^T a^T, column-major: b^T is the transpose of a stored matrix, a^T a stored one, which is the only form
// there is.
bool run_lt(const ScaledProduct& p) {
  const cudaDataType_t a = lt_type(p.a_type), b = lt_type(p.b_type), c = result_type(p.c_type);
  const bool fp8_result = is_float8(p.c_type);
  if (a == CUDA_R_32F || b == CUDA_R_32F || (fp8_result && c == CUDA_R_32F) || properties().major < 9) return false;
  if (p.a_type == DType::kFloat8_e5m2 && p.b_type == DType::kFloat8_e5m2) return false;
  if (p.a.col_stride != 1 || p.b.row_stride != 1 || p.a.row_stride < p.k || p.b.col_stride < p.k) return false;
  if (p.k % 16 || p.n % 16 || p.a.row_stride % 16 || p.b.col_stride % 16) return false;
  const auto aligned = [](const void* x) { return reinterpret_cast<uintptr_t>(x) % 16 == 0; };
  if (!aligned(p.a.data) || !aligned(p.b.data) || !aligned(p.c)) return false;
  // Results of a kind come with a bias of a kind.
  const cudaDataType_t bias = c == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF;
  if (p.bias && (result_type(p.bias_type) != bias || !aligned(p.bias))) return false;
  if (p.by_lines && p.c_type != DType::kBFloat16) return false;
  LtProduct q{.m = p.n,
              .n = p.m,
              .k = p.k,
              .a = {p.b.data, b, CUBLAS_OP_T, p.b.col_stride},
              .b = {p.a.data, a, CUBLAS_OP_N, p.a.row_stride},
              .d = p.c,
              .d_type = c,
              .c_type = fp8_result ? CUDA_R_16BF : c,
              .d_leading = p.n};
  if (p.bias) {
    q.epilogue = CUBLASLT_EPILOGUE_BIAS;
    q.bias = p.bias;
    q.bias_type = bias;
  }
  q.scale_a = p.scale_b;
  q.scale_b = p.scale_a;
  q.scale_d = fp8_result ? p.scale_result : nullptr;
  q.outer_scales = p.by_lines;
  q.fast_accumulation = p.fast_accumulation;
  return lt_product(q);
}

}  // namespace

void gemm_scaled(const ScaledProduct& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k > 0 && run_lt(p)) return;
  const Buffer a = floats_of(p.m, p.k, p.a, p.a_type), b = floats_of(p.k, p.n, p.b, p.b_type),
               sum(static_cast<size_t>(p.m * p.n * 4));
  KernelParam one{}, zero{};
  one.f = 1;
  cuda::gemm(DType::kFloat32, p.m, p.n, p.k, one, {a.get(), p.k, 1}, {b.get(), p.n, 1}, zero, {sum.get(), p.n, 1},
             false, false);
  for_each(p.m * p.n, Finish{sum.as<float>(), p.n, p.scale_a, p.scale_b, is_float8(p.c_type) ? p.scale_result : nullptr,
                             p.by_lines, static_cast<const char*>(p.bias), p.bias_type, p.c_type,
                             item_size(p.bias_type), item_size(p.c_type), static_cast<char*>(p.c)});
}

}  // namespace tessera::cuda
