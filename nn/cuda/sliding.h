// Windows that slide over images: their sizes as kernels read them.
#pragma once

#include "nn/cpu/conv/conv.h"
#include "nn/cuda/nn_kernels.h"
#include "tensor/core/error.h"

namespace tessera::cuda::internal {

// The sizes that the kernels read, in 32 bits: what divisions are fast with.
struct Sliding {
  int in[3], kernel[3], stride[3], padding[3], dilation[3], out[3];
  int64_t planes, plane, positions, taps;
};
inline Sliding sliding_of(const cpu::ConvGeometry& g) {
  Sliding s;
  s.planes = g.batch * g.in_channels;
  s.plane = s.positions = s.taps = 1;
  for (int i = 0; i < 3; ++i) {
    for (const int64_t v : {g.in_size[i], g.kernel[i], g.stride[i], g.padding[i], g.dilation[i], g.out_size[i]})
      TESSERA_CHECK(v <= (int64_t{1} << 30),
                    "sliding windows of more than 2^30 elements in a dimension are not supported on CUDA devices");
    s.in[i] = static_cast<int>(g.in_size[i]);
    s.kernel[i] = static_cast<int>(g.kernel[i]);
    s.stride[i] = static_cast<int>(g.stride[i]);
    s.padding[i] = static_cast<int>(g.padding[i]);
    s.dilation[i] = static_cast<int>(g.dilation[i]);
    s.out[i] = static_cast<int>(g.out_size[i]);
    s.plane *= g.in_size[i];
    s.positions *= g.out_size[i];
    s.taps *= g.kernel[i];
  }
  return s;
}

// The position whose window has tap k at input place i, or -1.
__device__ inline int64_t position_of(const Sliding& s, int dim, int64_t i, int k) {
  const int64_t from = i + s.padding[dim] - int64_t{k} * s.dilation[dim];
  if (from < 0) return -1;
  if (s.stride[dim] == 1) return from < s.out[dim] ? from : -1;
  const int64_t o = quotient(from, s.stride[dim]);
  return o * s.stride[dim] == from && o < s.out[dim] ? o : -1;
}

}  // namespace tessera::cuda::internal
