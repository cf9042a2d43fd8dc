#include "nn/conv_ops.h"
#include "nn/modules/init.h"
#include "nn/modules/layers.h"

namespace tessera::nn {

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Conv2dOptions options)
    : in_channels(in_channels), out_channels(out_channels), kernel_size(kernel_size), options(options) {
  TESSERA_CHECK_VALUE(options.groups > 0, "groups must be a positive integer");
  TESSERA_CHECK_VALUE(in_channels % options.groups == 0, "in_channels must be divisible by groups");
  TESSERA_CHECK_VALUE(out_channels % options.groups == 0, "out_channels must be divisible by groups");
  weight = register_parameter(
      "weight", empty_kernel(IntVector{out_channels, in_channels / options.groups, kernel_size.v[0], kernel_size.v[1]},
                             options.dtype));
  bias = register_parameter("bias", options.bias ? empty_kernel(IntVector{out_channels}, options.dtype) : Tensor());
  reset_parameters();
}

void Conv2d::reset_parameters() {
  const bool empty = weight.size(1) * weight.size(2) * weight.size(3) == 0;
  init::linear_defaults_(weight, empty ? Tensor() : bias);
}

Tensor Conv2d::forward(const Tensor& input) {
  return conv2d(input, weight, bias, IntList(options.stride), IntList(options.padding), IntList(options.dilation),
                options.groups);
}

std::string Conv2d::extra_repr() const {
  std::string s = std::to_string(in_channels) + ", " + std::to_string(out_channels) +
                  ", kernel_size=" + internal::repr(kernel_size) + ", stride=" + internal::repr(options.stride);
  if (!options.padding.is(0)) s += ", padding=" + internal::repr(options.padding);
  if (!options.dilation.is(1)) s += ", dilation=" + internal::repr(options.dilation);
  if (options.groups != 1) s += ", groups=" + std::to_string(options.groups);
  if (!bias.defined()) s += ", bias=False";
  return s;
}

}  // namespace tessera::nn
