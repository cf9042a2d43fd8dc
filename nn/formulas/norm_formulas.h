// Derivatives of the backward operators of normalisation: differentiable expressions for the gradients of grad_out,
// input and weight, from those of the three results (undefined: none). The first is the tangent of the normalisation
// itself, too, for tangents of input, weight and bias as what arrives; grad_out may then be undefined.
#pragma once

#include <span>
#include <tuple>

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

using NormGradients = std::tuple<Tensor, Tensor, Tensor>;

NormGradients batch_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                                         const Tensor& running_mean, const Tensor& running_var, const Tensor& save_mean,
                                         const Tensor& save_invstd, bool train, double eps);
NormGradients layer_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, SymIntList normalized_shape,
                                         const Tensor& mean, const Tensor& rstd, const Tensor& weight);
NormGradients group_norm_double_backward(const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias,
                                         const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                         const Tensor& rstd, const Tensor& weight, SymInt n, SymInt c, SymInt hxw,
                                         int64_t group);

// Of _rms_norm: at once where the device has that, or where a graph is made, by differentiable operators.
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, SymIntList normalized_shape,
                                             const Tensor& rstd, const Tensor& weight, double eps,
                                             std::span<const bool> mask);

}  // namespace tessera::autograd::formulas
