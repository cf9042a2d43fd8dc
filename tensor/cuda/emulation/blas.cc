#include <algorithm>
#include <complex>
#include <type_traits>
#include <vector>

#include "tensor/core/half.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

struct Problem {
  cublasOperation_t op_a, op_b;
  int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
  const void *a, *b;
  void* c;
};

template <class S>
S conjugate(S x) {
  if constexpr (std::is_floating_point_v<S>)
    return x;
  else
    return std::conj(x);
}
template <class S>
S times(S x, S y) {
  if constexpr (std::is_floating_point_v<S>)
    return x * y;
  else
    return S(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
}

// op(A) as rows, op(B) as columns, in the compute type S.
template <class T, class S>
void gather(const T* from, int64_t leading, cublasOperation_t op, bool outer_is_row, int64_t outer, int64_t inner,
            std::vector<S>& to) {
  to.resize(static_cast<size_t>(outer * inner));
  const bool plain = (op == CUBLAS_OP_N) == outer_is_row;
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j) {
      const S v = static_cast<S>(plain ? from[i + j * leading] : from[i * leading + j]);
      to[static_cast<size_t>(i * inner + j)] = op == CUBLAS_OP_C ? conjugate(v) : v;
    }
}

template <class T, class C, class S>
void multiply(const Problem& p, S alpha, S beta) {
  std::vector<S> rows, columns;
  for (int64_t z = 0; z < p.batch; ++z) {
    gather(static_cast<const T*>(p.a) + z * p.stride_a, p.lda, p.op_a, true, p.m, p.k, rows);
    gather(static_cast<const T*>(p.b) + z * p.stride_b, p.ldb, p.op_b, false, p.n, p.k, columns);
    C* const c = static_cast<C*>(p.c) + z * p.stride_c;
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < p.m; ++i) {
        const S *x = rows.data() + i * p.k, *y = columns.data() + j * p.k;
        S sum{};
        for (int64_t l = 0; l < p.k; ++l) sum += times(x[l], y[l]);
        sum = times(alpha, sum);
        C& to = c[i + j * p.ldc];
        if (beta != S{}) sum += times(beta, static_cast<S>(to));
        to = static_cast<C>(sum);
      }
  }
}

template <class T, class C, class S>
cublasStatus_t start(cublasHandle_t handle, const Problem& p, const void* alpha, const void* beta) {
  const S a = *static_cast<const S*>(alpha), b = *static_cast<const S*>(beta);
  // As a kernel of one thread: it may touch device memory, and is recorded while the stream is captured.
  const cudaError_t e = run(stream_of(handle), dim3(1), dim3(1), 0, false, [p, a, b] { multiply<T, C, S>(p, a, b); });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool valid(const Problem& p) {
  const auto rows = [](cublasOperation_t op, int64_t as_is, int64_t transposed) {
    return std::max<int64_t>(1, op == CUBLAS_OP_N ? as_is : transposed);
  };
  return p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0 && p.lda >= rows(p.op_a, p.m, p.k) &&
         p.ldb >= rows(p.op_b, p.k, p.n) && p.ldc >= std::max<int64_t>(1, p.m);
}

cublasStatus_t multiply_any(cublasHandle_t handle, const Problem& p, cudaDataType in, cudaDataType out,
                            cublasComputeType_t compute, const void* alpha, const void* beta) {
  if (!valid(p)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool single = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32,
             to_float = out == CUDA_R_32F;
  if (!single && compute != CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (single != (in != CUDA_R_64F && in != CUDA_C_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (in != out && !(to_float && (in == CUDA_R_16F || in == CUDA_R_16BF))) return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (in) {
    case CUDA_R_16F:
      return to_float ? start<Half, float, float>(handle, p, alpha, beta)
                      : start<Half, Half, float>(handle, p, alpha, beta);
    case CUDA_R_16BF:
      return to_float ? start<BFloat16, float, float>(handle, p, alpha, beta)
                      : start<BFloat16, BFloat16, float>(handle, p, alpha, beta);
    case CUDA_R_32F:
      return start<float, float, float>(handle, p, alpha, beta);
    case CUDA_R_64F:
      return start<double, double, double>(handle, p, alpha, beta);
    case CUDA_C_32F:
      return start<std::complex<float>, std::complex<float>, std::complex<float>>(handle, p, alpha, beta);
    case CUDA_C_64F:
      return start<std::complex<double>, std::complex<double>, std::complex<double>>(handle, p, alpha, beta);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

}  // namespace

Blas blas_functions() {
  Blas f;
  f.create = make<LibraryHandle>;
  f.destroy = destroy<LibraryHandle>;
  f.get_version = [](cublasHandle_t, int* version) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
  };
  f.status_name = [](cublasStatus_t s) {
    switch (s) {
      case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
      case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
      default:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
  };
  f.set_stream = set_stream;
  f.set_workspace = [](cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; };
  f.set_math_mode = [](cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; };
  f.gemm = [](cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
              const void* alpha, const void* a, cudaDataType a_type, int64_t lda, const void* b, cudaDataType,
              int64_t ldb, const void* beta, void* c, cudaDataType c_type, int64_t ldc, cublasComputeType_t compute,
              cublasGemmAlgo_t) {
    return multiply_any(h, {op_a, op_b, m, n, k, lda, ldb, ldc, 0, 0, 0, 1, a, b, c}, a_type, c_type, compute, alpha,
                        beta);
  };
  f.gemm_strided_batched = [](cublasHandle_t h, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
                              int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t lda,
                              long long stride_a, const void* b, cudaDataType, int64_t ldb, long long stride_b,
                              const void* beta, void* c, cudaDataType c_type, int64_t ldc, long long stride_c,
                              int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return multiply_any(h, {op_a, op_b, m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch, a, b, c}, a_type,
                        c_type, compute, alpha, beta);
  };
  return f;
}

}  // namespace tessera::cuda::emulation
