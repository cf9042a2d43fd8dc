// Distances between all rows of two matrices.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// out (batch, p, r) = ||x1[b, i] - x2[b, j]||_norm over m features; x1 (batch, p, m), x2 (batch, r, m), all contiguous,
// float32 or float64. by_product: Euclidean distances from a matrix product, sqrt(max(0, |x1|^2 + |x2|^2 - 2 x1 x2)).
void pair_distances(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, double norm, bool by_product,
                    const void* x1, const void* x2, void* out);
// dx1 from the gradients of the distances; pairs at distance 0 give nothing.
void pair_distances_backward(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, double norm, const void* grad,
                             const void* x1, const void* x2, const void* distances, void* dx1);

}  // namespace tessera::cpu
