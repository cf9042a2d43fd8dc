// Products of 8-bit floats with scales.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu {

// c = scale_a scale_b a b + bias, summed in float32 and rounded once: a is m x k, b k x n, of 8-bit floating dtypes; c
// is m x n, dense, row-major.
struct ScaledProduct {
  int64_t m, n, k;
  DType a_type, b_type, c_type;
  MatrixRef a, b;
  void* c;
  const float *scale_a, *scale_b;  // one number each, or by lines: m and n numbers
  bool by_lines = false;
  const void* bias = nullptr;  // n numbers
  DType bias_type = DType::kFloat32;
  const float* scale_result = nullptr;  // what c is multiplied by, if it is 8-bit
  bool fast_accumulation = false;       // a device may sum with fewer bits
};
void gemm_scaled(const ScaledProduct& p);

}  // namespace tessera::cpu
