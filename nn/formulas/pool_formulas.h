// Derivatives of the backward operators of pooling.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// What lies at `indices` (flat in the last n dimensions): the derivative of spreading gradients to where the maxima
// were.
Tensor gather_windows(const Tensor& grad, const Tensor& indices, int64_t n);
inline IntList last_sizes(IntList sizes, size_t n) { return sizes.subspan(sizes.size() - n); }

}  // namespace tessera::autograd::formulas
