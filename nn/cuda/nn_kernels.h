// Steps of network kernels that are no engines of their own, and what these kernels share.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda::internal {

// y (batch, channels, inner) += bias (channels).
void add_bias(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* bias, void* y);

// a / b for numbers that are not negative: 32-bit division is several times faster than 64-bit division.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  return (a | b) >> 32 ? a / b : static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
}
// i = i / d; returns the remainder.
__device__ inline int64_t split(int64_t& i, int64_t d) {
  const int64_t q = quotient(i, d), r = i - q * d;
  i = q;
  return r;
}

}  // namespace tessera::cuda::internal
