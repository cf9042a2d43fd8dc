#include "nn/formulas/conv_formulas.h"

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {
Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }
}  // namespace

std::tuple<Tensor, Tensor, Tensor> convolution_double_backward(
    const Tensor& grad_grad_input, const Tensor& grad_grad_weight, const Tensor& grad_grad_bias,
    const Tensor& grad_output, const Tensor& input, const Tensor& weight, SymIntList stride, SymIntList padding,
    SymIntList dilation, bool transposed, SymIntList output_padding, SymInt groups, std::array<bool, 3> wanted) {
  Tensor to_grad_output, to_input, to_weight;
  auto forward = [&](const Tensor& x, const Tensor& w) {
    return convolution(x, w, Tensor(), stride, padding, dilation, transposed, output_padding, groups);
  };
  auto backward = [&](const Tensor& x, const Tensor& w, std::array<bool, 3> mask) {
    return convolution_backward(conj(grad_output), x, w, std::nullopt, stride, padding, dilation, transposed,
                                output_padding, groups, mask);
  };
  if (wanted[0]) {
    if (grad_grad_input.defined()) to_grad_output = forward(grad_grad_input, conj(weight));
    if (grad_grad_weight.defined()) to_grad_output = plus(to_grad_output, forward(conj(input), grad_grad_weight));
    if (grad_grad_bias.defined()) {
      IntVector shape(static_cast<size_t>(grad_output.dim()), 1);
      shape[1] = grad_grad_bias.numel();
      to_grad_output = plus(to_grad_output, expand(reshape(grad_grad_bias, shape), grad_output.sizes()));
    }
  }
  if (wanted[1] && grad_grad_weight.defined())
    to_input = std::get<0>(backward(input, grad_grad_weight, {true, false, false}));
  if (wanted[2] && grad_grad_input.defined())
    to_weight = std::get<1>(backward(grad_grad_input, weight, {false, true, false}));
  return {to_grad_output, to_input, to_weight};
}

}  // namespace tessera::autograd::formulas
