#include <complex>

#include "linalg/cpu/factor/factor.h"
#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cuda/emulation/arguments.h"
#include "linalg/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

template <class T>
void factor_without_pivots(const MatrixBatch& a, int32_t* info) {
  const auto at = [&](int64_t i, int64_t j) -> T& {
    return static_cast<T*>(a.data)[i * a.row_stride + j * a.col_stride];
  };
  *info = 0;
  for (int64_t k = 0; k < std::min(a.rows, a.cols); ++k) {
    if (at(k, k) == T(0)) {
      if (*info == 0) *info = static_cast<int32_t>(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      at(i, k) /= at(k, k);
      for (int64_t j = k + 1; j < a.cols; ++j) at(i, j) -= at(i, k) * at(k, j);
    }
  }
}

// One call, with lda of A and ldb of B, as the matrices are needed by the CPU.
struct Triangle {
  MatrixBatch a, b;
  cpu::TriangularForm form;
};
Triangle triangle(cublasSideMode_t side, cublasFillMode_t part, cublasOperation_t op, cublasDiagType_t diagonal,
                  MatrixBatch a, MatrixBatch b) {
  const bool right = side == CUBLAS_SIDE_RIGHT, upper = part == CUBLAS_FILL_MODE_UPPER,
             transposes = (op != CUBLAS_OP_N) != right;
  return {transposes ? flipped(a) : a,
          right ? flipped(b) : b,
          {upper != transposes, diagonal == CUBLAS_DIAG_UNIT, op == CUBLAS_OP_C}};
}

cublasStatus_t done(bool started) { return started ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED; }

template <class T>
MatrixBlasOf<T> functions_of() {
  static constexpr DType kType = kDTypeOf<T>;
  MatrixBlasOf<T> f;
  f.trsm = [](cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t part, cublasOperation_t op,
              cublasDiagType_t diagonal, int64_t m, int64_t n, const T* alpha, const T* a, int64_t lda, T* b,
              int64_t ldb) {
    const int64_t size = side == CUBLAS_SIDE_LEFT ? m : n;
    if (!alpha || !is_matrix(a, kType, size, size, lda) || !is_matrix(b, kType, m, n, ldb))
      return CUBLAS_STATUS_INVALID_VALUE;
    count_call("trsm");
    const Triangle t = triangle(side, part, op, diagonal, columns(a, size, size, lda), columns(b, m, n, ldb));
    return done(start(h, [t] { cpu::run_triangular_solve(kType, t.a, t.form, t.b); }));
  };
  f.trsm_batched = [](cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t part, cublasOperation_t op,
                      cublasDiagType_t diagonal, int64_t m, int64_t n, const T* alpha, const T* const a[], int64_t lda,
                      T* const b[], int64_t ldb, int64_t count) {
    const int64_t size = side == CUBLAS_SIDE_LEFT ? m : n;
    if (!alpha || lda < size || ldb < m || !is_array_of(a, count) || !is_array_of(b, count))
      return CUBLAS_STATUS_INVALID_VALUE;
    count_call("trsmBatched");
    return done(start(h, [=] {
      for (int64_t i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kType, size, size, lda) || !is_matrix(b[i], kType, m, n, ldb)) std::abort();
        const Triangle t = triangle(side, part, op, diagonal, columns(a[i], size, size, lda), columns(b[i], m, n, ldb));
        cpu::run_triangular_solve(kType, t.a, t.form, t.b);
      }
    }));
  };
  f.getrf_batched = [](cublasHandle_t h, int n, T* const a[], int lda, int* pivots, int* info, int count) {
    if (n < 0 || lda < std::max(1, n) || !is_array_of(a, count) || !is_array_of(info, count) ||
        (pivots && !is_array_of(pivots, int64_t{n} * count)))
      return CUBLAS_STATUS_INVALID_VALUE;
    count_call("getrfBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kType, n, n, lda)) std::abort();
        factor_lu(kType, columns(a[i], n, n, lda), pivots ? pivots + int64_t{i} * n : nullptr, info + i);
      }
    }));
  };
  f.getrs_batched = [](cublasHandle_t h, cublasOperation_t op, int n, int nrhs, const T* const a[], int lda,
                       const int* pivots, T* const b[], int ldb, int* info, int count) {
    if (n < 0 || nrhs < 0 || lda < std::max(1, n) || ldb < std::max(1, n) || !info || device_of(info) >= 0 ||
        !is_array_of(a, count) || !is_array_of(b, count) || !is_array_of(pivots, int64_t{n} * count))
      return CUBLAS_STATUS_INVALID_VALUE;
    *info = 0;
    count_call("getrsBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kType, n, n, lda) || !is_matrix(b[i], kType, n, nrhs, ldb)) std::abort();
        solve_lu(kType, columns(a[i], n, n, lda), pivots + int64_t{i} * n, op, columns(b[i], n, nrhs, ldb));
      }
    }));
  };
  f.getri_batched = [](cublasHandle_t h, int n, const T* const a[], int lda, const int* pivots, T* const c[], int ldc,
                       int* info, int count) {
    if (n < 0 || lda < std::max(1, n) || ldc < std::max(1, n) || !is_array_of(a, count) || !is_array_of(c, count) ||
        !is_array_of(info, count) || !is_array_of(pivots, int64_t{n} * count))
      return CUBLAS_STATUS_INVALID_VALUE;
    count_call("getriBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kType, n, n, lda) || !is_matrix(c[i], kType, n, n, ldc) || a[i] == c[i]) std::abort();
        for (int k = 0; k < n; ++k)
          for (int j = 0; j < n; ++j) c[i][j + int64_t{k} * ldc] = j == k ? ElementType<T>::one() : T{};
        solve_lu(kType, columns(a[i], n, n, lda), pivots + int64_t{i} * n, CUBLAS_OP_N, columns(c[i], n, n, ldc));
        info[i] = 0;
      }
    }));
  };
  f.geqrf_batched = [](cublasHandle_t h, int m, int n, T* const a[], int lda, T* const tau[], int* info, int count) {
    if (m < 0 || n < 0 || lda < std::max(1, m) || !info || device_of(info) >= 0 || !is_array_of(a, count) ||
        !is_array_of(tau, count))
      return CUBLAS_STATUS_INVALID_VALUE;
    *info = 0;
    count_call("geqrfBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kType, m, n, lda) || !is_array_of(tau[i], std::min(m, n))) std::abort();
        cpu::run_geqrf(kType, columns(a[i], m, n, lda), tau[i]);
      }
    }));
  };
  return f;
}

}  // namespace

void factor_lu(DType t, const MatrixBatch& a, int32_t* pivots, int32_t* info) {
  if (pivots) return cpu::run_lu_factor(t, a, pivots, info);
  switch (t) {
    case DType::kFloat32:
      return factor_without_pivots<float>(a, info);
    case DType::kFloat64:
      return factor_without_pivots<double>(a, info);
    case DType::kComplex64:
      return factor_without_pivots<std::complex<float>>(a, info);
    default:
      return factor_without_pivots<std::complex<double>>(a, info);
  }
}
void solve_lu(DType t, const MatrixBatch& lu, const int32_t* pivots, cublasOperation_t op, const MatrixBatch& b) {
  cpu::run_lu_solve(t, lu, pivots, {op != CUBLAS_OP_N, op == CUBLAS_OP_C}, b);
}

MatrixBlas matrix_blas_functions() {
  MatrixBlas f;
  f.s = functions_of<float>();
  f.d = functions_of<double>();
  f.c = functions_of<cuComplex>();
  f.z = functions_of<cuDoubleComplex>();
  return f;
}

}  // namespace tessera::cuda::emulation
