// Windows of pooling along one dimension, and pooling of floating elements by whole lines.
#pragma once

#include "nn/cpu/pool.h"

namespace tessera::cpu::internal {

// The part of a window along one dimension that lies in the input: begin, begin + step ... < end; span is its length
// with padding.
struct Window {
  int64_t begin, end, span;
};

inline Window window(const PoolGeometry& g, int dim, int64_t o) {
  const int64_t step = g.dilation[dim], size = g.in_size[dim];
  int64_t begin = o * g.stride[dim] - g.padding[dim], end = begin + (g.kernel[dim] - 1) * step + 1;
  const int64_t padded_end = end < size + g.padding[dim] ? end : size + g.padding[dim], span = padded_end - begin;
  if (begin < 0) begin += (-begin + step - 1) / step * step;
  return {begin, end < size ? end : size, span};
}
inline int64_t clamp_to(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

// float16, bfloat16, float32, float64; planes of less than 2^31 elements.
void max_pool_lines(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices);
void avg_pool_lines(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override, const void* x,
                    void* y);

}  // namespace tessera::cpu::internal
