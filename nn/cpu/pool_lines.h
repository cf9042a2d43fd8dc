// Pooling of floating elements by whole lines.
#pragma once

#include "nn/cpu/pool.h"
#include "nn/cpu/pool_windows.h"

namespace tessera::cpu::internal {

inline PoolWindow window(const PoolGeometry& g, int dim, int64_t o) {
  const PoolLine line{g.in_size[dim], g.out_size[dim], g.kernel[dim], g.stride[dim],
                      g.padding[dim], g.dilation[dim], false};
  return window_of(line, o, [](int64_t a, int64_t b) { return a / b; });
}

// float16, bfloat16, float32, float64; planes of less than 2^31 elements.
void max_pool_lines(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices);
void avg_pool_lines(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override, const void* x,
                    void* y);

}  // namespace tessera::cpu::internal
