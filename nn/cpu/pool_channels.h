// Maximum pooling of images whose channels lie side by side: vectors are neighbouring channels.
#pragma once

#include "nn/cpu/pool.h"

namespace tessera::cpu {

// Whether the functions below take these: float32 and float64, enough channels, planes of less than 2^31 elements.
bool max_pool_takes_channels(DType dtype, int64_t in_plane, int64_t channels);

// As those of pool.h, but x and dx are (images, in..., channels), the others (images, out..., channels); g.planes
// counts images.
void max_pool_forward_channels(DType dtype, const PoolGeometry& g, int64_t channels, const void* x, void* y,
                               int64_t* indices);
void max_pool_backward_channels(DType dtype, int64_t images, int64_t in_plane, int64_t out_plane, int64_t channels,
                                const void* dy, const int64_t* indices, void* dx);

}  // namespace tessera::cpu
