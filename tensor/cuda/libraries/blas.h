// cuBLAS, found at run time.
#pragma once

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/cublas.h"
#else
#include <cublas_v2.h>
#endif

#include "tensor/core/dtype.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// The functions of cuBLAS that are used.
struct Blas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasGetVersion_v2) get_version;
  decltype(&cublasGetStatusName) status_name;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGemmEx_64) gemm;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_strided_batched;
};

// Null where the library is missing.
const Blas* find_blas();
// Throws where it is missing, saying why.
const Blas& blas();
void check_blas(cublasStatus_t s, const char* what);

// What the user may allow for speed; torch.backends.cuda.matmul.
struct BlasSettings {
  bool allow_tf32 = false;
  bool allow_fp16_reduced_precision = true;
  bool allow_bf16_reduced_precision = true;
};
BlasSettings blas_settings();
void set_blas_settings(const BlasSettings& s);

// This thread's handle on op_device(), on its current stream, with a workspace of that stream (so that results are the
// same on every run).
cublasHandle_t blas_handle();
// The workspace of the handle that blas_handle() gave last on this thread.
struct BlasWorkspace {
  void* data;
  size_t bytes;
};
BlasWorkspace blas_workspace();
// Gives the workspaces of all streams back to the allocator; they come again when needed.
void release_blas_workspaces();

}  // namespace tessera::cuda
