// What the gradient of rows by their root mean squares calls besides operators.
#pragma once

#include <span>
#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// The gradients of _rms_norm's input and weight as one call, where a device has that; undefined elsewhere.
std::tuple<Tensor, Tensor> rms_norm_gradient(const Tensor& grad, const Tensor& input, SymIntList normalized_shape,
                                             const Tensor& rstd, const Tensor& weight, std::span<const bool> mask);

}  // namespace tessera::kernels
