// Pooling below the Tensor. Tensors are contiguous (the caller makes them so), planes of up to three dimensions; fewer
// have leading sizes of 1.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

struct PoolGeometry {
  int64_t planes;  // batch * channels
  int64_t in_size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
};
// NaN propagates; indices (int64, may be null) are flat in the input plane, the first maximum wins.
void max_pool_forward(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices);
// dx (zeroed here) += dy at indices.
void max_pool_backward(DType dtype, int64_t planes, int64_t in_plane, int64_t out_plane, const void* dy,
                       const int64_t* indices, void* dx);
// divisor_override 0: none.
void avg_pool_forward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                      const void* x, void* y);
void avg_pool_backward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                       const void* dy, void* dx);
void adaptive_avg_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y);
void adaptive_avg_pool_backward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* dy,
                                void* dx);
void adaptive_max_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y, int64_t* indices);

}  // namespace tessera::cpu
