// cuSOLVER, and cuBLAS's functions of triangles and of many small matrices, found at run time.
#pragma once

#if TESSERA_CUDA_EMULATED
#include "linalg/cuda/emulation/cusolver.h"
#else
#include <cublas_v2.h>
#include <cusolverDn.h>
#endif

#include <limits>
#include <type_traits>
#include <vector>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// Functions that are told the type of elements; those of newer versions; those of the type that a letter stands for.
#define TESSERA_SOLVER_FUNCTIONS(F)            \
  F(create, cusolverDnCreate)                  \
  F(set_stream, cusolverDnSetStream)           \
  F(create_params, cusolverDnCreateParams)     \
  F(create_syevj, cusolverDnCreateSyevjInfo)   \
  F(create_gesvdj, cusolverDnCreateGesvdjInfo) \
  F(getrf_size, cusolverDnXgetrf_bufferSize)   \
  F(getrf, cusolverDnXgetrf)                   \
  F(getrs, cusolverDnXgetrs)                   \
  F(potrf_size, cusolverDnXpotrf_bufferSize)   \
  F(potrf, cusolverDnXpotrf)                   \
  F(geqrf_size, cusolverDnXgeqrf_bufferSize)   \
  F(geqrf, cusolverDnXgeqrf)                   \
  F(sytrs_size, cusolverDnXsytrs_bufferSize)   \
  F(sytrs, cusolverDnXsytrs)                   \
  F(syevd_size, cusolverDnXsyevd_bufferSize)   \
  F(syevd, cusolverDnXsyevd)                   \
  F(gesvd_size, cusolverDnXgesvd_bufferSize)   \
  F(gesvd, cusolverDnXgesvd)
#define TESSERA_NEWER_SOLVER_FUNCTIONS(F)                 \
  F(syev_batched_size, cusolverDnXsyevBatched_bufferSize) \
  F(syev_batched, cusolverDnXsyevBatched)                 \
  F(geev_size, cusolverDnXgeev_bufferSize)                \
  F(geev, cusolverDnXgeev)
#define TESSERA_SOLVER_FUNCTIONS_OF(F, X, ORGQR, ORMQR, SYEVJ)           \
  F(potrf_batched, cusolverDn##X##potrfBatched)                          \
  F(orgqr_size, cusolverDn##X##ORGQR##_bufferSize)                       \
  F(orgqr, cusolverDn##X##ORGQR)                                         \
  F(ormqr_size, cusolverDn##X##ORMQR##_bufferSize)                       \
  F(ormqr, cusolverDn##X##ORMQR)                                         \
  F(sytrf_size, cusolverDn##X##sytrf_bufferSize)                         \
  F(sytrf, cusolverDn##X##sytrf)                                         \
  F(syevj_batched_size, cusolverDn##X##SYEVJ##_bufferSize)               \
  F(syevj_batched, cusolverDn##X##SYEVJ)                                 \
  F(gesvdj_size, cusolverDn##X##gesvdj_bufferSize)                       \
  F(gesvdj, cusolverDn##X##gesvdj)                                       \
  F(gesvdj_batched_size, cusolverDn##X##gesvdjBatched_bufferSize)        \
  F(gesvdj_batched, cusolverDn##X##gesvdjBatched)                        \
  F(gesvda_batched_size, cusolverDn##X##gesvdaStridedBatched_bufferSize) \
  F(gesvda_batched, cusolverDn##X##gesvdaStridedBatched)
#define TESSERA_MATRIX_BLAS_FUNCTIONS_OF(F, X) \
  F(trsm, cublas##X##trsm_v2_64)               \
  F(trsm_batched, cublas##X##trsmBatched_64)   \
  F(getrf_batched, cublas##X##getrfBatched)    \
  F(getrs_batched, cublas##X##getrsBatched)    \
  F(getri_batched, cublas##X##getriBatched)    \
  F(geqrf_batched, cublas##X##geqrfBatched)

#define TESSERA_FUNCTION_MEMBER(name, function) decltype(&function) name;
template <class T>
struct SolverOf;
template <class T>
struct MatrixBlasOf;
#define TESSERA_FUNCTIONS_OF(T, X, ORGQR, ORMQR, SYEVJ)                          \
  template <>                                                                    \
  struct SolverOf<T> {                                                           \
    TESSERA_SOLVER_FUNCTIONS_OF(TESSERA_FUNCTION_MEMBER, X, ORGQR, ORMQR, SYEVJ) \
  };                                                                             \
  template <>                                                                    \
  struct MatrixBlasOf<T> {                                                       \
    TESSERA_MATRIX_BLAS_FUNCTIONS_OF(TESSERA_FUNCTION_MEMBER, X)                 \
  };
TESSERA_FUNCTIONS_OF(float, S, orgqr, ormqr, syevjBatched)
TESSERA_FUNCTIONS_OF(double, D, orgqr, ormqr, syevjBatched)
TESSERA_FUNCTIONS_OF(cuComplex, C, ungqr, unmqr, heevjBatched)
TESSERA_FUNCTIONS_OF(cuDoubleComplex, Z, ungqr, unmqr, heevjBatched)
#undef TESSERA_FUNCTIONS_OF

// A value for each type of element.
template <template <class> class F>
struct ForTypes {
  F<float> s;
  F<double> d;
  F<cuComplex> c;
  F<cuDoubleComplex> z;
  template <class T>
  const F<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return s;
    else if constexpr (std::is_same_v<T, double>)
      return d;
    else if constexpr (std::is_same_v<T, cuComplex>)
      return c;
    else
      return z;
  }
};
struct Solver : ForTypes<SolverOf> {
  TESSERA_SOLVER_FUNCTIONS(TESSERA_FUNCTION_MEMBER)
  TESSERA_NEWER_SOLVER_FUNCTIONS(TESSERA_FUNCTION_MEMBER)  // null where they are missing
};
using MatrixBlas = ForTypes<MatrixBlasOf>;
#undef TESSERA_FUNCTION_MEMBER

// Throw where the library is missing, saying why.
const Solver& solver();
const MatrixBlas& matrix_blas();
void check_solver(cusolverStatus_t s, const char* what);

// This thread's handle on op_device(), on its current stream.
cusolverDnHandle_t solver_handle();
// Settings as they are at the beginning.
cusolverDnParams_t solver_params();
syevjInfo_t syevj_settings();
gesvdjInfo_t gesvdj_settings();

// torch.backends.cuda.preferred_linalg_library: with kCusolver cuSOLVER does what cuBLAS could do for many small
// matrices, too.
enum class LinalgLibrary : int { kDefault = 0, kCusolver = 1 };
LinalgLibrary linalg_library();
void set_linalg_library(LinalgLibrary l);

// What a call works in: bytes on the device, from the caching allocator, and on the host.
class WorkSpace {
 public:
  // ask(size_t* on_device, size_t* on_host) asks the library.
  template <class Ask>
  WorkSpace(const char* what, Ask ask) {
    size_t on_host = 0;
    check_solver(ask(&device_bytes_, &on_host), what);
    device_ = Buffer(device_bytes_);
    host_.resize(on_host);
  }
  void* device() const { return device_.get(); }
  size_t device_bytes() const { return device_bytes_; }
  void* host() { return host_.data(); }
  size_t host_bytes() const { return host_.size(); }

 private:
  size_t device_bytes_ = 0;
  Buffer device_;
  std::vector<char> host_;
};
// The same of functions of one type, which count elements; ask(int*).
template <class T>
class ElementSpace {
 public:
  template <class Ask>
  ElementSpace(const char* what, Ask ask) {
    check_solver(ask(&size_), what);
    buffer_ = Buffer(static_cast<size_t>(size_) * sizeof(T));
  }
  T* get() const { return buffer_.as<T>(); }
  int size() const { return size_; }

 private:
  int size_ = 0;
  Buffer buffer_;
};

// A size for functions that take int.
inline int small_size(int64_t n) {
  TESSERA_CHECK(n <= std::numeric_limits<int>::max(), "a matrix or batch of ", n,
                " is too large for cuSOLVER: at most ", std::numeric_limits<int>::max(), " are possible");
  return static_cast<int>(n);
}

inline cudaDataType solver_type(DType t) {
  switch (t) {
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

template <class T>
struct ElementType {
  using type = T;
  static constexpr bool complex = std::is_same_v<T, cuComplex> || std::is_same_v<T, cuDoubleComplex>;
  using real = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, cuDoubleComplex>, double, float>;
  // The operation of the conjugate transpose.
  static constexpr cublasOperation_t adjoint = complex ? CUBLAS_OP_C : CUBLAS_OP_T;
  static T one() {
    if constexpr (complex)
      return T{1, 0};
    else
      return T(1);
  }
};
// f(ElementType<T>()) with the library's type of a dtype.
template <class F>
void with_element_type(DType t, F f) {
  switch (t) {
    case DType::kFloat32:
      return f(ElementType<float>());
    case DType::kFloat64:
      return f(ElementType<double>());
    case DType::kComplex64:
      return f(ElementType<cuComplex>());
    case DType::kComplex128:
      return f(ElementType<cuDoubleComplex>());
    default:
      TESSERA_CHECK_NOT_IMPLEMENTED(false, "linear algebra is not implemented for dtype ", name_of(t));
  }
}

}  // namespace tessera::cuda
