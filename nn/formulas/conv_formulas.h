// Derivatives of convolution_backward.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <tuple>

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// Gradients of convolution_backward's grad_output, input and weight, from those of its three results (undefined: none).
// All three are convolutions again, since each result is linear in each of the two tensors that it is made of.
std::tuple<Tensor, Tensor, Tensor> convolution_double_backward(
    const Tensor& grad_grad_input, const Tensor& grad_grad_weight, const Tensor& grad_grad_bias,
    const Tensor& grad_output, const Tensor& input, const Tensor& weight, SymIntList stride, SymIntList padding,
    SymIntList dilation, bool transposed, SymIntList output_padding, SymInt groups, std::array<bool, 3> wanted);

// The tangents of convolution_backward's results, from those of its arguments (undefined: none).
std::array<Tensor, 3> convolution_backward_tangent(const Tensor& grad_output_t, const Tensor& input_t,
                                                   const Tensor& weight_t, const Tensor& grad_output,
                                                   const Tensor& input, const Tensor& weight,
                                                   std::optional<SymIntList> bias_sizes, SymIntList stride,
                                                   SymIntList padding, SymIntList dilation, bool transposed,
                                                   SymIntList output_padding, SymInt groups,
                                                   std::span<const bool> output_mask);

}  // namespace tessera::autograd::formulas
