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

std::array<Tensor, 3> convolution_backward_tangent(const Tensor& grad_output_t, const Tensor& input_t,
                                                   const Tensor& weight_t, const Tensor& grad_output,
                                                   const Tensor& input, const Tensor& weight,
                                                   std::optional<SymIntList> bias_sizes, SymIntList stride,
                                                   SymIntList padding, SymIntList dilation, bool transposed,
                                                   SymIntList output_padding, SymInt groups,
                                                   std::span<const bool> output_mask) {
  std::array<Tensor, 3> sums;
  // The results are products of two arguments each: the gradient and the weight, the gradient and the input.
  auto term = [&](const Tensor& g, const Tensor& x, const Tensor& w, std::array<bool, 3> of) {
    for (size_t i = 0; i < 3; ++i) of[i] = of[i] && output_mask[i];
    if (!of[0] && !of[1] && !of[2]) return;
    const auto [a, b, c] =
        convolution_backward(g, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, of);
    sums = {plus(sums[0], a), plus(sums[1], b), plus(sums[2], c)};
  };
  if (grad_output_t.defined()) term(grad_output_t, input, weight, {true, true, true});
  if (weight_t.defined()) term(grad_output, input, weight_t, {true, false, false});
  if (input_t.defined()) term(grad_output, input_t, weight, {false, true, false});
  return sums;
}

std::tuple<Tensor, Tensor, Tensor> convolution_relu_backward(const Tensor& grad, const Tensor& result,
                                                             const Tensor& input, const Tensor& weight,
                                                             SymIntList stride, SymIntList padding, SymIntList dilation,
                                                             SymInt groups, std::array<bool, 3> wanted) {
  const bool lone = input.dim() < weight.dim();
  const auto batch = [lone](const Tensor& t) { return lone ? unsqueeze(t, 0) : t; };
  auto [x, w, b] = convolution_backward(batch(threshold_backward(grad, result, 0)), batch(input), weight, std::nullopt,
                                        stride, padding, dilation, false, IntVector(stride.size(), 0), groups, wanted);
  if (lone && x.defined()) x = squeeze(x, 0);
  return {x, w, b};
}

Tensor convolution_relu_tangent(const Tensor& input_t, const Tensor& weight_t, const Tensor& bias_t,
                                const Tensor& result, const Tensor& input, const Tensor& weight, SymIntList stride,
                                SymIntList padding, SymIntList dilation, SymInt groups) {
  const bool lone = input.dim() < weight.dim();
  const auto forward = [&](const Tensor& x, const Tensor& w) {
    const Tensor y = convolution(lone ? unsqueeze(x, 0) : x, w, Tensor(), stride, padding, dilation, false,
                                 IntVector(stride.size(), 0), groups);
    return lone ? squeeze(y, 0) : y;
  };
  Tensor sum;
  if (input_t.defined()) sum = forward(input_t, weight);
  if (weight_t.defined()) sum = plus(sum, forward(input, weight_t));
  if (bias_t.defined()) {
    IntVector shape(static_cast<size_t>(result.dim()), 1);
    shape[lone ? 0 : 1] = bias_t.numel();
    sum = plus(sum, expand(reshape(bias_t, shape), result.sizes()));
  }
  return threshold_backward(sum, result, 0);
}

Tensor scaled_by(const Tensor& t, const std::optional<Scalar>& alpha) { return alpha ? mul(t, *alpha) : t; }

}  // namespace tessera::autograd::formulas
