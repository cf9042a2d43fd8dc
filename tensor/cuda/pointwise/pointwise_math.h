// For files of functors that call long functions.
#pragma once

#include "tensor/cuda/support/math.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::cuda {

// A functor whose code is not repeated for each element of a chunk.
template <class F>
struct Apart : F {
  static constexpr bool kHeavy = true;
};

// float in chunks; double, in which these functions are several times as long, apart.
template <class F>
constexpr PointwiseEntry math_entry(const PointwiseOp* op) {
  return PointwiseEntry{op}.kernel<F, float>().template kernel<Apart<F>, double>();
}

}  // namespace tessera::cuda
