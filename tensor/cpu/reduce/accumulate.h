// What reductions and running reductions compute in, on every device.
#pragma once

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// The dtype in which elements of dtype t are added up, multiplied or compared: float32 for halves, int64 for integers
// and bool (of which any smaller dtype keeps the low bits, so that sums and products come out right). keep_uint64:
// where the order counts, which int64 does not have.
inline DType accumulation_dtype(DType t, bool keep_uint64 = false) {
  if (is_reduced_float(t)) return DType::kFloat32;
  if (t == DType::kComplex32) return DType::kComplex64;
  if (keep_uint64 && t == DType::kUInt64) return t;
  return is_integral(t, true) ? DType::kInt64 : t;
}

}  // namespace tessera::cpu
