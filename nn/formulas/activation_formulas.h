// Second derivatives of activation functions: `grad` is the gradient of the <f>_backward's result, `g` its first
// argument.
#pragma once

#include <string_view>

#include "nn/activation_extra.h"
#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// The tangent of _prelu_kernel; one of the inputs' may be undefined.
Tensor prelu_tangent(const Tensor& self_t, const Tensor& weight_t, const Tensor& self, const Tensor& weight);

Tensor elu_double_backward(const Tensor& grad, const Tensor& g, const Scalar& alpha, const Scalar& scale,
                           const Scalar& input_scale, bool is_result, const Tensor& x);
Tensor gelu_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x, std::string_view approximate);
Tensor silu_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x);
Tensor mish_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x);
Tensor hardswish_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x);
Tensor softplus_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x, const Scalar& beta,
                                const Scalar& threshold);
Tensor log_sigmoid_double_backward(const Tensor& grad, const Tensor& g, const Tensor& x);

}  // namespace tessera::autograd::formulas
