// Derivatives of distances.
#pragma once

#include <optional>

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// The gradient of x1 from that of the distances.
Tensor cdist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                      std::optional<int64_t> compute_mode, const Tensor& distances);

// The tangent of the distances; one of the points' may be undefined.
Tensor cdist_tangent(const Tensor& x1_t, const Tensor& x2_t, const Tensor& x1, const Tensor& x2, double p,
                     const Tensor& distances);

}  // namespace tessera::autograd::formulas
