// Derivatives of convolution_backward, and of convolutions with their activation.
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

// Gradients and tangent of relu(convolution) where `result` is it; the input with a batch or without.
std::tuple<Tensor, Tensor, Tensor> convolution_relu_backward(const Tensor& grad, const Tensor& result,
                                                             const Tensor& input, const Tensor& weight,
                                                             SymIntList stride, SymIntList padding, SymIntList dilation,
                                                             SymInt groups, std::array<bool, 3> wanted);
Tensor convolution_relu_tangent(const Tensor& input_t, const Tensor& weight_t, const Tensor& bias_t,
                                const Tensor& result, const Tensor& input, const Tensor& weight, SymIntList stride,
                                SymIntList padding, SymIntList dilation, SymInt groups);
// alpha t; no alpha: t.
Tensor scaled_by(const Tensor& t, const std::optional<Scalar>& alpha);

}  // namespace tessera::autograd::formulas
