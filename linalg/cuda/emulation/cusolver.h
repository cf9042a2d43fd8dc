// What solver.h uses of the interfaces of cuSOLVER and of cuBLAS's functions of triangles and small matrices, for the
// emulated device (see tensor/cuda/emulation/cublas.h): functions are declared for their types alone, solver.cc and
// small_matrices.cc here have what is called; values are those of the real headers.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/emulation/cublas.h"

using cuComplex = float2;
using cuDoubleComplex = double2;

enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_ARCH_MISMATCH = 4,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_INTERNAL_ERROR = 7,
  CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
  CUSOLVER_STATUS_NOT_SUPPORTED = 9
};
enum cusolverEigMode_t { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };
using cusolverDnHandle_t = struct cusolverDnContext*;
using cusolverDnParams_t = struct cusolverDnParams*;
using syevjInfo_t = struct syevjInfo*;
using gesvdjInfo_t = struct gesvdjInfo*;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t*);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t, cudaStream_t);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t*);
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t*);
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t*);

// Functions of any type: sizes, each array with its type and leading dimension, the type that is computed in; work
// space on the device and on the host, or where their sizes in bytes go; info on the device.
cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, cudaDataType,
                                             const void*, int64_t, cudaDataType, size_t*, size_t*);
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, cudaDataType, void*,
                                  int64_t, int64_t*, cudaDataType, void*, size_t, void*, size_t, int*);
cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t, cusolverDnParams_t, cublasOperation_t, int64_t, int64_t,
                                  cudaDataType, const void*, int64_t, const int64_t*, cudaDataType, void*, int64_t,
                                  int*);
cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t,
                                             cudaDataType, const void*, int64_t, cudaDataType, size_t*, size_t*);
cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t, cudaDataType,
                                  void*, int64_t, cudaDataType, void*, size_t, void*, size_t, int*);
cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, cudaDataType,
                                             const void*, int64_t, cudaDataType, const void*, cudaDataType, size_t*,
                                             size_t*);
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t, cudaDataType, void*,
                                  int64_t, cudaDataType, void*, cudaDataType, void*, size_t, void*, size_t, int*);
cusolverStatus_t cusolverDnXsytrs_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int64_t, int64_t, cudaDataType,
                                             const void*, int64_t, const int64_t*, cudaDataType, void*, int64_t,
                                             size_t*, size_t*);
cusolverStatus_t cusolverDnXsytrs(cusolverDnHandle_t, cublasFillMode_t, int64_t, int64_t, cudaDataType, const void*,
                                  int64_t, const int64_t*, cudaDataType, void*, int64_t, void*, size_t, void*, size_t,
                                  int*);
cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                             cublasFillMode_t, int64_t, cudaDataType, const void*, int64_t,
                                             cudaDataType, const void*, cudaDataType, size_t*, size_t*);
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t, int64_t,
                                  cudaDataType, void*, int64_t, cudaDataType, void*, cudaDataType, void*, size_t, void*,
                                  size_t, int*);
cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                                   cublasFillMode_t, int64_t, cudaDataType, const void*, int64_t,
                                                   cudaDataType, const void*, cudaDataType, size_t*, size_t*, int64_t);
cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cublasFillMode_t,
                                        int64_t, cudaDataType, void*, int64_t, cudaDataType, void*, cudaDataType, void*,
                                        size_t, void*, size_t, int*, int64_t);
cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char, int64_t,
                                             int64_t, cudaDataType, const void*, int64_t, cudaDataType, const void*,
                                             cudaDataType, const void*, int64_t, cudaDataType, const void*, int64_t,
                                             cudaDataType, size_t*, size_t*);
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t, cusolverDnParams_t, signed char, signed char, int64_t, int64_t,
                                  cudaDataType, void*, int64_t, cudaDataType, void*, cudaDataType, void*, int64_t,
                                  cudaDataType, void*, int64_t, cudaDataType, void*, size_t, void*, size_t, int*);
cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                            cusolverEigMode_t, int64_t, cudaDataType, const void*, int64_t,
                                            cudaDataType, const void*, cudaDataType, const void*, int64_t, cudaDataType,
                                            const void*, int64_t, cudaDataType, size_t*, size_t*);
cusolverStatus_t cusolverDnXgeev(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cusolverEigMode_t, int64_t,
                                 cudaDataType, void*, int64_t, cudaDataType, void*, cudaDataType, void*, int64_t,
                                 cudaDataType, void*, int64_t, cudaDataType, void*, size_t, void*, size_t, int*);

// Functions of one type T whose real numbers are R; sizes of work space in elements.
#define TESSERA_EMULATED_SOLVER(X, T, R, ORGQR, ORMQR, SYEVJ)                                                          \
  cusolverStatus_t cusolverDn##X##potrfBatched(cusolverDnHandle_t, cublasFillMode_t, int, T*[], int, int*, int);       \
  cusolverStatus_t cusolverDn##X##ORGQR##_bufferSize(cusolverDnHandle_t, int, int, int, const T*, int, const T*,       \
                                                     int*);                                                            \
  cusolverStatus_t cusolverDn##X##ORGQR(cusolverDnHandle_t, int, int, int, T*, int, const T*, T*, int, int*);          \
  cusolverStatus_t cusolverDn##X##ORMQR##_bufferSize(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int,     \
                                                     int, int, const T*, int, const T*, const T*, int, int*);          \
  cusolverStatus_t cusolverDn##X##ORMQR(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int, int,        \
                                        const T*, int, const T*, T*, int, T*, int, int*);                              \
  cusolverStatus_t cusolverDn##X##sytrf_bufferSize(cusolverDnHandle_t, int, T*, int, int*);                            \
  cusolverStatus_t cusolverDn##X##sytrf(cusolverDnHandle_t, cublasFillMode_t, int, T*, int, int*, T*, int, int*);      \
  cusolverStatus_t cusolverDn##X##SYEVJ##_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int,     \
                                                     const T*, int, const R*, int*, syevjInfo_t, int);                 \
  cusolverStatus_t cusolverDn##X##SYEVJ(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int, T*, int, R*, T*, \
                                        int, int*, syevjInfo_t, int);                                                  \
  cusolverStatus_t cusolverDn##X##gesvdj_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, int, int, int, const T*,    \
                                                    int, const R*, const T*, int, const T*, int, int*, gesvdjInfo_t);  \
  cusolverStatus_t cusolverDn##X##gesvdj(cusolverDnHandle_t, cusolverEigMode_t, int, int, int, T*, int, R*, T*, int,   \
                                         T*, int, T*, int, int*, gesvdjInfo_t);                                        \
  cusolverStatus_t cusolverDn##X##gesvdjBatched_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, int, int, const T*,  \
                                                           int, const R*, const T*, int, const T*, int, int*,          \
                                                           gesvdjInfo_t, int);                                         \
  cusolverStatus_t cusolverDn##X##gesvdjBatched(cusolverDnHandle_t, cusolverEigMode_t, int, int, T*, int, R*, T*, int, \
                                                T*, int, T*, int, int*, gesvdjInfo_t, int);                            \
  cusolverStatus_t cusolverDn##X##gesvdaStridedBatched_bufferSize(                                                     \
      cusolverDnHandle_t, cusolverEigMode_t, int, int, int, const T*, int, long long, const R*, long long, const T*,   \
      int, long long, const T*, int, long long, int*, int);                                                            \
  cusolverStatus_t cusolverDn##X##gesvdaStridedBatched(cusolverDnHandle_t, cusolverEigMode_t, int, int, int, const T*, \
                                                       int, long long, R*, long long, T*, int, long long, T*, int,     \
                                                       long long, T*, int, int*, double*, int);                        \
  cublasStatus_t cublas##X##trsm_v2_64(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,          \
                                       cublasDiagType_t, int64_t, int64_t, const T*, const T*, int64_t, T*, int64_t);  \
  cublasStatus_t cublas##X##trsmBatched_64(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,      \
                                           cublasDiagType_t, int64_t, int64_t, const T*, const T* const[], int64_t,    \
                                           T* const[], int64_t, int64_t);                                              \
  cublasStatus_t cublas##X##getrfBatched(cublasHandle_t, int, T* const[], int, int*, int*, int);                       \
  cublasStatus_t cublas##X##getrsBatched(cublasHandle_t, cublasOperation_t, int, int, const T* const[], int,           \
                                         const int*, T* const[], int, int*, int);                                      \
  cublasStatus_t cublas##X##getriBatched(cublasHandle_t, int, const T* const[], int, const int*, T* const[], int,      \
                                         int*, int);                                                                   \
  cublasStatus_t cublas##X##geqrfBatched(cublasHandle_t, int, int, T* const[], int, T* const[], int*, int);
TESSERA_EMULATED_SOLVER(S, float, float, orgqr, ormqr, syevjBatched)
TESSERA_EMULATED_SOLVER(D, double, double, orgqr, ormqr, syevjBatched)
TESSERA_EMULATED_SOLVER(C, cuComplex, float, ungqr, unmqr, heevjBatched)
TESSERA_EMULATED_SOLVER(Z, cuDoubleComplex, double, ungqr, unmqr, heevjBatched)
#undef TESSERA_EMULATED_SOLVER
