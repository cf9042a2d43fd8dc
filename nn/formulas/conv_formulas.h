// Derivatives of convolution_backward.
#pragma once

#include <array>
#include <tuple>

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// Gradients of convolution_backward's grad_output, input and weight, from those of its three results (undefined: none).
// All three are convolutions again, since each result is linear in each of the two tensors that it is made of.
std::tuple<Tensor, Tensor, Tensor> convolution_double_backward(
    const Tensor& grad_grad_input, const Tensor& grad_grad_weight, const Tensor& grad_grad_bias,
    const Tensor& grad_output, const Tensor& input, const Tensor& weight, SymIntList stride, SymIntList padding,
    SymIntList dilation, bool transposed, SymIntList output_padding, SymInt groups, std::array<bool, 3> wanted);

}  // namespace tessera::autograd::formulas
