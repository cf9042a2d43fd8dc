// cuBLASLt, found at run time: products whose results go through an epilogue (a bias, an activation) or whose operands
// have scales (8-bit floats).
#pragma once

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/cublas.h"
#else
#include <cublasLt.h>
#endif

#include <cstdint>

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

// The functions of cuBLASLt that are used.
struct BlasLt {
  decltype(&cublasLtMatmulDescCreate) create_desc;
  decltype(&cublasLtMatmulDescDestroy) destroy_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmul) matmul;
};
// Null where the library is missing.
const BlasLt* find_blas_lt();

// A column-major matrix as it is stored, and how it is read.
struct LtMatrix {
  const void* data;
  cudaDataType_t type;
  cublasOperation_t op;
  int64_t leading;
};
// d = epilogue(alpha scale_a scale_b op(a) op(b)): m x n, column-major. The bias is a column of m numbers.
struct LtProduct {
  int64_t m, n, k;
  LtMatrix a, b;
  void* d;
  cudaDataType_t d_type, c_type;  // c_type: what would be added; that of d, but for 8-bit results
  int64_t d_leading;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  float alpha = 1;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  const float *scale_a = nullptr, *scale_b = nullptr, *scale_d = nullptr;  // on the device
  bool outer_scales = false;  // of a: one for each row of op(a), of b: one for each column of op(b); else one number
  bool fast_accumulation = false;
  bool reduced_reduction = true;  // partial sums may be added in the type of d
};
// False: the library is missing, or has no algorithm for this; nothing has been done. The choice of an algorithm is
// made once for each kind of product.
bool lt_product(const LtProduct& p);

}  // namespace tessera::cuda
