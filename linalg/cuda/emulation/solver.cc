#include <atomic>
#include <complex>
#include <map>
#include <mutex>
#include <string>

#include "linalg/cpu/eigen/eig.h"
#include "linalg/cpu/factor/factor.h"
#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cpu/spectral/spectral.h"
#include "linalg/cuda/emulation/arguments.h"
#include "linalg/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

constexpr size_t kDeviceBytes = 64, kHostBytes = 32;  // used, so that missing work space is noticed
constexpr int kElements = 4;

cusolverStatus_t done(bool started) { return started ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED; }

cusolverStatus_t give_sizes(bool valid, size_t* on_device, size_t* on_host) {
  if (!valid || !on_device || !on_host) return CUSOLVER_STATUS_INVALID_VALUE;
  *on_device = kDeviceBytes;
  *on_host = kHostBytes;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t give_size(bool valid, int* elements) {
  if (!valid || !elements) return CUSOLVER_STATUS_INVALID_VALUE;
  *elements = kElements;
  return CUSOLVER_STATUS_SUCCESS;
}
bool is_work(void* on_device, size_t device_bytes, void* on_host, size_t host_bytes) {
  if (device_bytes < kDeviceBytes || host_bytes < kHostBytes || !on_host || device_of(on_host) >= 0) return false;
  std::memset(on_host, 1, kHostBytes);
  return is_array(on_device, kDeviceBytes);
}
template <class T>
bool is_work(T* work, int elements) {
  return elements >= kElements && is_array_of(work, kElements);
}
bool is_info(const int* info, int64_t count = 1) { return is_array_of(info, count); }

bool is_type_of(cudaDataType t, cudaDataType real) {
  return is_type(t) && is_type(real) && to_real(dtype_of(t)) == dtype_of(real);
}

// --- Factorizations

void add_factors(Solver& f) {
  f.getrf_size = [](cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n, cudaDataType t, const void* a,
                    int64_t lda, cudaDataType compute, size_t* on_device, size_t* on_host) {
    return give_sizes(h && p && is_type(t) && t == compute && is_matrix(a, dtype_of(t), m, n, lda), on_device, on_host);
  };
  f.getrf = [](cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n, cudaDataType t, void* a, int64_t lda,
               int64_t* pivots, cudaDataType compute, void* work, size_t bytes, void* host, size_t host_bytes,
               int* info) {
    const int64_t size = std::min(m, n);
    if (!p || !is_type(t) || t != compute || !is_matrix(a, dtype_of(t), m, n, lda) || !is_info(info) ||
        (pivots && !is_array_of(pivots, size)) || !is_work(work, bytes, host, host_bytes))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xgetrf");
    return done(start(h, [=] {
      std::vector<int32_t> small(static_cast<size_t>(size));
      factor_lu(dtype_of(t), columns(a, m, n, lda), pivots ? small.data() : nullptr, info);
      if (pivots) std::copy(small.begin(), small.end(), pivots);
    }));
  };
  f.getrs = [](cusolverDnHandle_t h, cusolverDnParams_t p, cublasOperation_t op, int64_t n, int64_t nrhs,
               cudaDataType t, const void* a, int64_t lda, const int64_t* pivots, cudaDataType b_type, void* b,
               int64_t ldb, int* info) {
    if (!p || !is_type(t) || t != b_type || !is_matrix(a, dtype_of(t), n, n, lda) ||
        !is_matrix(b, dtype_of(t), n, nrhs, ldb) || !is_array_of(pivots, n) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xgetrs");
    return done(start(h, [=] {
      const std::vector<int32_t> small(pivots, pivots + n);
      solve_lu(dtype_of(t), columns(a, n, n, lda), small.data(), op, columns(b, n, nrhs, ldb));
      *info = 0;
    }));
  };
}

// A triangle of the matrix alone is read and written.
void factor_cholesky(DType t, const MatrixBatch& a, cublasFillMode_t part, int* info) {
  const bool upper = part == CUBLAS_FILL_MODE_UPPER;
  const auto keep = [=](int64_t i, int64_t j) { return upper ? i <= j : i >= j; };
  Scratch own(t, a.rows, a.cols);
  assign(t, own.m, a, false, keep);
  cpu::run_cholesky(t, own.m, upper, info);
  assign(t, a, own.m, false, keep);
}
void add_cholesky(Solver& f) {
  f.potrf_size = [](cusolverDnHandle_t h, cusolverDnParams_t p, cublasFillMode_t, int64_t n, cudaDataType t,
                    const void* a, int64_t lda, cudaDataType compute, size_t* on_device, size_t* on_host) {
    return give_sizes(h && p && is_type(t) && t == compute && is_matrix(a, dtype_of(t), n, n, lda), on_device, on_host);
  };
  f.potrf = [](cusolverDnHandle_t h, cusolverDnParams_t p, cublasFillMode_t part, int64_t n, cudaDataType t, void* a,
               int64_t lda, cudaDataType compute, void* work, size_t bytes, void* host, size_t host_bytes, int* info) {
    if (!p || !is_type(t) || t != compute || !is_matrix(a, dtype_of(t), n, n, lda) || !is_info(info) ||
        !is_work(work, bytes, host, host_bytes))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xpotrf");
    return done(start(h, [=] { factor_cholesky(dtype_of(t), columns(a, n, n, lda), part, info); }));
  };
}
template <class T>
void add_cholesky_of(SolverOf<T>& f) {
  f.potrf_batched = [](cusolverDnHandle_t h, cublasFillMode_t part, int n, T* a[], int lda, int* info, int count) {
    if (n < 0 || lda < std::max(1, n) || !is_array_of(a, count) || !is_info(info, count))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("potrfBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) {
        if (!is_matrix(a[i], kDTypeOf<T>, n, n, lda)) std::abort();
        factor_cholesky(kDTypeOf<T>, columns(a[i], n, n, lda), part, info + i);
      }
    }));
  };
}

template <class T>
void add_ldl_of(SolverOf<T>& f) {
  f.sytrf_size = [](cusolverDnHandle_t, int n, T* a, int lda, int* elements) {
    return give_size(is_matrix(a, kDTypeOf<T>, n, n, lda), elements);
  };
  f.sytrf = [](cusolverDnHandle_t h, cublasFillMode_t part, int n, T* a, int lda, int* pivots, T* work, int elements,
               int* info) {
    if (!is_matrix(a, kDTypeOf<T>, n, n, lda) || !is_array_of(pivots, n) || !is_work(work, elements) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    if (part != CUBLAS_FILL_MODE_LOWER) return CUSOLVER_STATUS_NOT_SUPPORTED;
    count_call("sytrf");
    return done(start(h, [=] { cpu::run_ldl_factor(kDTypeOf<T>, columns(a, n, n, lda), false, pivots, info); }));
  };
}
void add_ldl(Solver& f) {
  f.sytrs_size = [](cusolverDnHandle_t, cublasFillMode_t, int64_t n, int64_t nrhs, cudaDataType t, const void* a,
                    int64_t lda, const int64_t* pivots, cudaDataType b_type, void* b, int64_t ldb, size_t* on_device,
                    size_t* on_host) {
    return give_sizes(is_type(t) && t == b_type && is_matrix(a, dtype_of(t), n, n, lda) && is_array_of(pivots, n) &&
                          is_matrix(b, dtype_of(t), n, nrhs, ldb),
                      on_device, on_host);
  };
  f.sytrs = [](cusolverDnHandle_t h, cublasFillMode_t part, int64_t n, int64_t nrhs, cudaDataType t, const void* a,
               int64_t lda, const int64_t* pivots, cudaDataType b_type, void* b, int64_t ldb, void* work, size_t bytes,
               void* host, size_t host_bytes, int* info) {
    if (!is_type(t) || t != b_type || !is_matrix(a, dtype_of(t), n, n, lda) || !is_array_of(pivots, n) ||
        !is_matrix(b, dtype_of(t), n, nrhs, ldb) || !is_work(work, bytes, host, host_bytes) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    if (part != CUBLAS_FILL_MODE_LOWER) return CUSOLVER_STATUS_NOT_SUPPORTED;
    count_call("Xsytrs");
    return done(start(h, [=] {
      const std::vector<int32_t> small(pivots, pivots + n);
      cpu::run_ldl_solve(dtype_of(t), columns(a, n, n, lda), small.data(), false, columns(b, n, nrhs, ldb));
      *info = 0;
    }));
  };
}

// --- Q R

void add_qr(Solver& f) {
  f.geqrf_size = [](cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n, cudaDataType t, const void* a,
                    int64_t lda, cudaDataType tau_type, const void*, cudaDataType compute, size_t* on_device,
                    size_t* on_host) {
    return give_sizes(h && p && is_type(t) && t == compute && t == tau_type && is_matrix(a, dtype_of(t), m, n, lda),
                      on_device, on_host);
  };
  f.geqrf = [](cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n, cudaDataType t, void* a, int64_t lda,
               cudaDataType tau_type, void* tau, cudaDataType compute, void* work, size_t bytes, void* host,
               size_t host_bytes, int* info) {
    if (!p || !is_type(t) || t != compute || t != tau_type || !is_matrix(a, dtype_of(t), m, n, lda) ||
        !is_array(tau, std::min(m, n) * item_size(dtype_of(t))) || !is_work(work, bytes, host, host_bytes) ||
        !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xgeqrf");
    return done(start(h, [=] {
      cpu::run_geqrf(dtype_of(t), columns(a, m, n, lda), tau);
      *info = 0;
    }));
  };
}
template <class T>
void add_qr_of(SolverOf<T>& f) {
  static constexpr DType kType = kDTypeOf<T>;
  static constexpr auto kValid = [](int m, int n, int k, const T* a, int lda, const T* tau) {
    return m >= n && n >= k && k >= 0 && is_matrix(a, kType, m, n, lda) && is_array_of(tau, k);
  };
  f.orgqr_size = [](cusolverDnHandle_t, int m, int n, int k, const T* a, int lda, const T* tau, int* elements) {
    return give_size(kValid(m, n, k, a, lda, tau), elements);
  };
  f.orgqr = [](cusolverDnHandle_t h, int m, int n, int k, T* a, int lda, const T* tau, T* work, int elements,
               int* info) {
    if (!kValid(m, n, k, a, lda, tau) || !is_work(work, elements) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("orgqr");
    return done(start(h, [=] {
      cpu::run_householder_product(kType, columns(a, m, n, lda), tau, k, k);
      *info = 0;
    }));
  };
  static constexpr auto kValidProduct = [](cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const T* a,
                                           int lda, const T* tau, const T* c, int ldc) {
    const int size = side == CUBLAS_SIDE_LEFT ? m : n;
    return k <= size && (op == CUBLAS_OP_N || op == ElementType<T>::adjoint) && is_matrix(a, kType, size, k, lda) &&
           is_array_of(tau, k) && is_matrix(c, kType, m, n, ldc);
  };
  f.ormqr_size = [](cusolverDnHandle_t, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const T* a,
                    int lda, const T* tau, const T* c, int ldc, int* elements) {
    return give_size(kValidProduct(side, op, m, n, k, a, lda, tau, c, ldc), elements);
  };
  f.ormqr = [](cusolverDnHandle_t h, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k, const T* a,
               int lda, const T* tau, T* c, int ldc, T* work, int elements, int* info) {
    if (!kValidProduct(side, op, m, n, k, a, lda, tau, c, ldc) || !is_work(work, elements) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("ormqr");
    const bool left = side == CUBLAS_SIDE_LEFT;
    return done(start(h, [=] {
      cpu::run_apply_reflections(kType, columns(a, left ? m : n, k, lda), tau, k, k, columns(c, m, n, ldc), left,
                                 op != CUBLAS_OP_N);
      *info = 0;
    }));
  };
}

// --- Hermitian matrices

// Vectors in A's place; else A is spoilt.
void solve_eigh(DType t, cusolverEigMode_t mode, cublasFillMode_t part, const MatrixBatch& a, void* values, int* info) {
  Scratch vectors(t, a.rows, a.cols);
  const bool wanted = mode == CUSOLVER_EIG_MODE_VECTOR;
  cpu::run_eigh(t, a, part == CUBLAS_FILL_MODE_LOWER, values, wanted ? &vectors.m : nullptr, info);
  if (*info < 0) std::abort();  // the library must not be given what is not finite
  assign(t, a, vectors.m);
}
void add_eigh(Solver& f) {
  static constexpr auto kValid = [](cusolverDnParams_t p, int64_t n, cudaDataType t, const void* a, int64_t lda,
                                    cudaDataType real, const void* w, cudaDataType compute, int64_t count) {
    return p && is_type_of(t, real) && t == compute && count > 0 &&
           is_matrix(a, dtype_of(t), n, n, lda, count, lda * n) && is_array(w, count * n * item_size(dtype_of(real)));
  };
  f.syevd_size = [](cusolverDnHandle_t, cusolverDnParams_t p, cusolverEigMode_t, cublasFillMode_t, int64_t n,
                    cudaDataType t, const void* a, int64_t lda, cudaDataType real, const void* w, cudaDataType compute,
                    size_t* on_device, size_t* on_host) {
    return give_sizes(kValid(p, n, t, a, lda, real, w, compute, 1), on_device, on_host);
  };
  f.syevd = [](cusolverDnHandle_t h, cusolverDnParams_t p, cusolverEigMode_t mode, cublasFillMode_t part, int64_t n,
               cudaDataType t, void* a, int64_t lda, cudaDataType real, void* w, cudaDataType compute, void* work,
               size_t bytes, void* host, size_t host_bytes, int* info) {
    if (!kValid(p, n, t, a, lda, real, w, compute, 1) || !is_work(work, bytes, host, host_bytes) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xsyevd");
    return done(start(h, [=] { solve_eigh(dtype_of(t), mode, part, columns(a, n, n, lda), w, info); }));
  };
  f.syev_batched_size = [](cusolverDnHandle_t, cusolverDnParams_t p, cusolverEigMode_t, cublasFillMode_t, int64_t n,
                           cudaDataType t, const void* a, int64_t lda, cudaDataType real, const void* w,
                           cudaDataType compute, size_t* on_device, size_t* on_host, int64_t count) {
    return give_sizes(kValid(p, n, t, a, lda, real, w, compute, count), on_device, on_host);
  };
  f.syev_batched = [](cusolverDnHandle_t h, cusolverDnParams_t p, cusolverEigMode_t mode, cublasFillMode_t part,
                      int64_t n, cudaDataType t, void* a, int64_t lda, cudaDataType real, void* w, cudaDataType compute,
                      void* work, size_t bytes, void* host, size_t host_bytes, int* info, int64_t count) {
    if (!kValid(p, n, t, a, lda, real, w, compute, count) || !is_work(work, bytes, host, host_bytes) ||
        !is_info(info, count))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("XsyevBatched");
    const DType type = dtype_of(t);
    return done(start(h, [=] {
      for (int64_t i = 0; i < count; ++i)
        solve_eigh(type, mode, part, columns(static_cast<char*>(a) + i * lda * n * item_size(type), n, n, lda),
                   static_cast<char*>(w) + i * n * item_size(to_real(type)), info + i);
    }));
  };
}
template <class T>
void add_jacobi_eigh_of(SolverOf<T>& f) {
  using R = typename ElementType<T>::real;
  static constexpr auto kValid = [](int n, const T* a, int lda, const R* w, syevjInfo_t settings, int count) {
    return settings && n <= 32 && is_matrix(a, kDTypeOf<T>, n, n, lda, count, int64_t{lda} * n) &&
           is_array_of(w, int64_t{n} * count);
  };
  f.syevj_batched_size = [](cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n, const T* a, int lda,
                            const R* w, int* elements, syevjInfo_t settings,
                            int count) { return give_size(kValid(n, a, lda, w, settings, count), elements); };
  f.syevj_batched = [](cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t part, int n, T* a, int lda, R* w,
                       T* work, int elements, int* info, syevjInfo_t settings, int count) {
    if (!kValid(n, a, lda, w, settings, count) || !is_work(work, elements) || !is_info(info, count))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("syevjBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i)
        solve_eigh(kDTypeOf<T>, mode, part, columns(a + int64_t{i} * lda * n, n, n, lda), w + int64_t{i} * n, info + i);
    }));
  };
}

// --- Singular values

std::atomic<int> g_failing_calls{0};

// A is spoilt. v: V, else V's adjoint; both null: values alone.
void solve_svd(DType t, const MatrixBatch& a, const MatrixBatch* u, void* values, const MatrixBatch* v, bool adjoint,
               int* info) {
  if (!u) {
    cpu::run_svd(t, a, nullptr, values, nullptr, info);
  } else {
    Scratch vh(t, adjoint ? v->rows : v->cols, adjoint ? v->cols : v->rows);
    cpu::run_svd(t, a, u, values, &vh.m, info);
    assign(t, *v, adjoint ? vh.m : flipped(vh.m), !adjoint);
  }
  if (*info < 0) std::abort();  // the library must not be given what is not finite
  assign(t, a, Scratch(t, a.rows, a.cols).m);
}

void add_svd(Solver& f) {
  static constexpr auto kValid = [](cusolverDnParams_t p, signed char job_u, signed char job_vt, int64_t m, int64_t n,
                                    cudaDataType t, const void* a, int64_t lda, cudaDataType real, const void* s,
                                    cudaDataType u_type, const void* u, int64_t ldu, cudaDataType vt_type,
                                    const void* vt, int64_t ldvt, cudaDataType compute) {
    const bool vectors = job_u != 'N';
    const int64_t cols = !vectors ? 0 : job_u == 'A' ? m : n;
    return p && m >= n && vectors == (job_vt != 'N') && is_type_of(t, real) && t == compute && t == u_type &&
           t == vt_type && is_matrix(a, dtype_of(t), m, n, lda) && is_array(s, n * item_size(dtype_of(real))) &&
           is_matrix(u, dtype_of(t), m, cols, ldu) && is_matrix(vt, dtype_of(t), vectors ? n : 0, n, ldvt);
  };
  f.gesvd_size = [](cusolverDnHandle_t, cusolverDnParams_t p, signed char job_u, signed char job_vt, int64_t m,
                    int64_t n, cudaDataType t, const void* a, int64_t lda, cudaDataType real, const void* s,
                    cudaDataType u_type, const void* u, int64_t ldu, cudaDataType vt_type, const void* vt, int64_t ldvt,
                    cudaDataType compute, size_t* on_device, size_t* on_host) {
    return give_sizes(kValid(p, job_u, job_vt, m, n, t, a, lda, real, s, u_type, u, ldu, vt_type, vt, ldvt, compute),
                      on_device, on_host);
  };
  f.gesvd = [](cusolverDnHandle_t h, cusolverDnParams_t p, signed char job_u, signed char job_vt, int64_t m, int64_t n,
               cudaDataType t, void* a, int64_t lda, cudaDataType real, void* s, cudaDataType u_type, void* u,
               int64_t ldu, cudaDataType vt_type, void* vt, int64_t ldvt, cudaDataType compute, void* work,
               size_t bytes, void* host, size_t host_bytes, int* info) {
    if (!kValid(p, job_u, job_vt, m, n, t, a, lda, real, s, u_type, u, ldu, vt_type, vt, ldvt, compute) ||
        !is_work(work, bytes, host, host_bytes) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xgesvd");
    const MatrixBatch left = columns(u, m, job_u == 'A' ? m : n, ldu), right = columns(vt, n, n, ldvt);
    return done(start(h, [=] {
      const bool vectors = job_u != 'N';
      solve_svd(dtype_of(t), columns(a, m, n, lda), vectors ? &left : nullptr, s, vectors ? &right : nullptr, true,
                info);
    }));
  };
}

template <class T>
struct JacobiSvd {
  using R = typename ElementType<T>::real;
  static constexpr DType kType = kDTypeOf<T>;
  cusolverEigMode_t mode;
  bool economical;
  int m, n;
  const T* a;
  int lda;
  const R* s;
  const T* u;
  int ldu;
  const T* v;
  int ldv;
  gesvdjInfo_t settings;

  int64_t rank() const { return std::min(m, n); }
  bool vectors() const { return mode == CUSOLVER_EIG_MODE_VECTOR; }
  int64_t u_cols() const { return economical ? rank() : m; }
  int64_t v_cols() const { return economical ? rank() : n; }
  bool is_valid(int64_t count) const {
    return settings && is_matrix(a, kType, m, n, lda, count, int64_t{lda} * n) && is_array_of(s, rank() * count) &&
           ldu >= std::max(1, m) && ldv >= std::max(1, n) &&
           (!vectors() || (is_matrix(u, kType, m, u_cols(), ldu, count, ldu * u_cols()) &&
                           is_matrix(v, kType, n, v_cols(), ldv, count, ldv * v_cols())));
  }
  void solve(int64_t i, int* info) const {
    const MatrixBatch left = columns(u + i * ldu * u_cols(), m, u_cols(), ldu),
                      right = columns(v + i * ldv * v_cols(), n, v_cols(), ldv);
    solve_svd(kType, columns(a + i * lda * n, m, n, lda), vectors() ? &left : nullptr, const_cast<R*>(s) + i * rank(),
              vectors() ? &right : nullptr, false, info + i);
    if (g_failing_calls > 0) {
      --g_failing_calls;
      info[i] = static_cast<int>(rank() + 1);
      std::memset(const_cast<R*>(s) + i * rank(), 0xCD, static_cast<size_t>(rank()) * sizeof(R));
    }
  }
};
template <class T>
void add_jacobi_svd_of(SolverOf<T>& f) {
  using R = typename ElementType<T>::real;
  f.gesvdj_size = [](cusolverDnHandle_t, cusolverEigMode_t mode, int econ, int m, int n, const T* a, int lda,
                     const R* s, const T* u, int ldu, const T* v, int ldv, int* elements, gesvdjInfo_t settings) {
    return give_size(JacobiSvd<T>{mode, econ != 0, m, n, a, lda, s, u, ldu, v, ldv, settings}.is_valid(1), elements);
  };
  f.gesvdj = [](cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m, int n, T* a, int lda, R* s, T* u,
                int ldu, T* v, int ldv, T* work, int elements, int* info, gesvdjInfo_t settings) {
    const JacobiSvd<T> svd{mode, econ != 0, m, n, a, lda, s, u, ldu, v, ldv, settings};
    if (!svd.is_valid(1) || !is_work(work, elements) || !is_info(info)) return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("gesvdj");
    return done(start(h, [=] { svd.solve(0, info); }));
  };
  f.gesvdj_batched_size = [](cusolverDnHandle_t, cusolverEigMode_t mode, int m, int n, const T* a, int lda, const R* s,
                             const T* u, int ldu, const T* v, int ldv, int* elements, gesvdjInfo_t settings,
                             int count) {
    const JacobiSvd<T> svd{mode, false, m, n, a, lda, s, u, ldu, v, ldv, settings};
    return give_size(m <= 32 && n <= 32 && svd.is_valid(count), elements);
  };
  f.gesvdj_batched = [](cusolverDnHandle_t h, cusolverEigMode_t mode, int m, int n, T* a, int lda, R* s, T* u, int ldu,
                        T* v, int ldv, T* work, int elements, int* info, gesvdjInfo_t settings, int count) {
    const JacobiSvd<T> svd{mode, false, m, n, a, lda, s, u, ldu, v, ldv, settings};
    if (m > 32 || n > 32 || !svd.is_valid(count) || !is_work(work, elements) || !is_info(info, count))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("gesvdjBatched");
    return done(start(h, [=] {
      for (int i = 0; i < count; ++i) svd.solve(i, info);
    }));
  };
}

template <class T>
struct ApproximateSvd {
  using R = typename ElementType<T>::real;
  static constexpr DType kType = kDTypeOf<T>;
  cusolverEigMode_t mode;
  int rank, m, n;
  const T* a;
  int lda;
  long long a_stride;
  const R* s;
  long long s_stride;
  const T* u;
  int ldu;
  long long u_stride;
  const T* v;
  int ldv;
  long long v_stride;
  int count;

  bool is_valid() const {
    return m >= n && rank == n && s_stride >= n && a_stride >= int64_t{lda} * n && u_stride >= int64_t{ldu} * rank &&
           v_stride >= int64_t{ldv} * rank && is_matrix(a, kType, m, n, lda, count, a_stride) &&
           is_array_of(s, (count - 1) * s_stride + n) && is_matrix(u, kType, m, rank, ldu, count, u_stride) &&
           is_matrix(v, kType, n, rank, ldv, count, v_stride);
  }
  void solve(int* info) const {
    const bool vectors = mode == CUSOLVER_EIG_MODE_VECTOR;
    for (int i = 0; i < count; ++i) {
      const MatrixBatch left = columns(u + i * u_stride, m, rank, ldu), right = columns(v + i * v_stride, n, rank, ldv);
      Scratch copy(kType, m, n);
      assign(kType, copy.m, columns(a + i * a_stride, m, n, lda));
      solve_svd(kType, copy.m, vectors ? &left : nullptr, const_cast<R*>(s) + i * s_stride, vectors ? &right : nullptr,
                false, info + i);
    }
  }
};
template <class T>
void add_approximate_svd_of(SolverOf<T>& f) {
  using R = typename ElementType<T>::real;
  f.gesvda_batched_size = [](cusolverDnHandle_t, cusolverEigMode_t mode, int rank, int m, int n, const T* a, int lda,
                             long long a_stride, const R* s, long long s_stride, const T* u, int ldu,
                             long long u_stride, const T* v, int ldv, long long v_stride, int* elements, int count) {
    return give_size(
        ApproximateSvd<T>{mode, rank, m, n, a, lda, a_stride, s, s_stride, u, ldu, u_stride, v, ldv, v_stride, count}
            .is_valid(),
        elements);
  };
  f.gesvda_batched = [](cusolverDnHandle_t h, cusolverEigMode_t mode, int rank, int m, int n, const T* a, int lda,
                        long long a_stride, R* s, long long s_stride, T* u, int ldu, long long u_stride, T* v, int ldv,
                        long long v_stride, T* work, int elements, int* info, double* residuals, int count) {
    const ApproximateSvd<T> svd{mode,     rank, m,   n,        a, lda, a_stride, s,
                                s_stride, u,    ldu, u_stride, v, ldv, v_stride, count};
    if (!svd.is_valid() || !is_work(work, elements) || !is_info(info, count) || !residuals || device_of(residuals) >= 0)
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("gesvdaStridedBatched");
    std::fill_n(residuals, count, 0.0);
    return done(start(h, [=] { svd.solve(info); }));
  };
}

// --- General matrices

// As LAPACK gives the vectors of real matrices.
template <class R>
void pack_pairs(const MatrixBatch& from, const void* w, const MatrixBatch& to) {
  const auto* const values = static_cast<const std::complex<R>*>(w);
  const auto part = [&](int64_t i, int64_t j, bool imag) {
    const auto z = static_cast<std::complex<R>*>(from.data)[i * from.row_stride + j * from.col_stride];
    return imag ? z.imag() : z.real();
  };
  for (int64_t j = 0; j < to.cols; ++j)
    for (int64_t i = 0; i < to.rows; ++i) {
      const bool second = values[j].imag() < 0;
      static_cast<R*>(to.data)[i * to.row_stride + j * to.col_stride] = part(i, second ? j - 1 : j, second);
    }
}
void solve_eig(DType t, const MatrixBatch& a, void* w, const MatrixBatch* v, int* info) {
  const DType complex = to_complex(t);
  Scratch vectors(complex, a.rows, a.cols);
  cpu::run_eig(t, a, w, v ? &vectors.m : nullptr, info);
  if (*info < 0) std::abort();  // the library must not be given what is not finite
  if (v && is_complex(t)) assign(t, *v, vectors.m);
  if (v && t == DType::kFloat32) pack_pairs<float>(vectors.m, w, *v);
  if (v && t == DType::kFloat64) pack_pairs<double>(vectors.m, w, *v);
  assign(t, a, Scratch(t, a.rows, a.cols).m);
}
void add_eig(Solver& f) {
  static constexpr auto kValid = [](cusolverDnParams_t p, cusolverEigMode_t left, cusolverEigMode_t right, int64_t n,
                                    cudaDataType t, const void* a, int64_t lda, cudaDataType w_type, const void* w,
                                    cudaDataType vl_type, int64_t ldvl, cudaDataType vr_type, const void* vr,
                                    int64_t ldvr, cudaDataType compute) {
    if (!p || left != CUSOLVER_EIG_MODE_NOVECTOR || !is_type(t) || !is_type(w_type)) return false;
    const bool vectors = right == CUSOLVER_EIG_MODE_VECTOR;
    return t == compute && t == vl_type && t == vr_type && dtype_of(w_type) == to_complex(dtype_of(t)) && ldvl >= 1 &&
           ldvr >= (vectors ? n : 1) && is_matrix(a, dtype_of(t), n, n, lda) &&
           is_array(w, n * item_size(dtype_of(w_type))) && (!vectors || is_matrix(vr, dtype_of(t), n, n, ldvr));
  };
  f.geev_size = [](cusolverDnHandle_t, cusolverDnParams_t p, cusolverEigMode_t left, cusolverEigMode_t right, int64_t n,
                   cudaDataType t, const void* a, int64_t lda, cudaDataType w_type, const void* w, cudaDataType vl_type,
                   const void*, int64_t ldvl, cudaDataType vr_type, const void* vr, int64_t ldvr, cudaDataType compute,
                   size_t* on_device, size_t* on_host) {
    return give_sizes(kValid(p, left, right, n, t, a, lda, w_type, w, vl_type, ldvl, vr_type, vr, ldvr, compute),
                      on_device, on_host);
  };
  f.geev = [](cusolverDnHandle_t h, cusolverDnParams_t p, cusolverEigMode_t left, cusolverEigMode_t right, int64_t n,
              cudaDataType t, void* a, int64_t lda, cudaDataType w_type, void* w, cudaDataType vl_type, void*,
              int64_t ldvl, cudaDataType vr_type, void* vr, int64_t ldvr, cudaDataType compute, void* work,
              size_t bytes, void* host, size_t host_bytes, int* info) {
    if (!kValid(p, left, right, n, t, a, lda, w_type, w, vl_type, ldvl, vr_type, vr, ldvr, compute) ||
        !is_work(work, bytes, host, host_bytes) || !is_info(info))
      return CUSOLVER_STATUS_INVALID_VALUE;
    count_call("Xgeev");
    const MatrixBatch vectors = columns(vr, n, n, ldvr);
    return done(start(h, [=] {
      solve_eig(dtype_of(t), columns(a, n, n, lda), w, right == CUSOLVER_EIG_MODE_VECTOR ? &vectors : nullptr, info);
    }));
  };
}

template <class T>
SolverOf<T> functions_of() {
  SolverOf<T> f;
  add_cholesky_of(f);
  add_ldl_of(f);
  add_qr_of(f);
  add_jacobi_eigh_of(f);
  add_jacobi_svd_of(f);
  add_approximate_svd_of(f);
  return f;
}

struct Calls {
  std::mutex mutex;
  std::map<std::string, int> by_name;
};
Calls& calls() {
  static Calls& c = *new Calls;
  return c;
}
struct Settings {};

}  // namespace

Solver solver_functions() {
  Solver f{};
  f.create = make<LibraryHandle>;
  f.set_stream = set_stream;
  f.create_params = make<Settings>;
  f.create_syevj = make<Settings>;
  f.create_gesvdj = make<Settings>;
  add_factors(f);
  add_cholesky(f);
  add_ldl(f);
  add_qr(f);
  add_eigh(f);
  add_svd(f);
  add_eig(f);
  f.s = functions_of<float>();
  f.d = functions_of<double>();
  f.c = functions_of<cuComplex>();
  f.z = functions_of<cuDoubleComplex>();
  return f;
}

void fail_next_jacobi(int calls) { g_failing_calls = calls; }

void count_call(const char* name) {
  const std::lock_guard lock(calls().mutex);
  ++calls().by_name[name];
}
int solver_calls(const char* name) {
  const std::lock_guard lock(calls().mutex);
  return calls().by_name[name];
}

}  // namespace tessera::cuda::emulation
