#include "nn/modules/layers.h"
#include "nn/pool_ops.h"

namespace tessera::nn {
namespace {

// As Python shows it: a single number where height and width agree.
std::string short_repr(const Size2d& s) { return s.is(s.v[0]) ? std::to_string(s.v[0]) : internal::repr(s); }

}  // namespace

Tensor MaxPool2d::forward(const Tensor& input) {
  return max_pool2d(input, kernel_size, options.stride.value_or(kernel_size), options.padding, options.dilation,
                    options.ceil_mode);
}

std::string MaxPool2d::extra_repr() const {
  return "kernel_size=" + short_repr(kernel_size) + ", stride=" + short_repr(options.stride.value_or(kernel_size)) +
         ", padding=" + short_repr(options.padding) + ", dilation=" + short_repr(options.dilation) +
         ", ceil_mode=" + internal::repr(options.ceil_mode);
}

Tensor AvgPool2d::forward(const Tensor& input) {
  return avg_pool2d(input, kernel_size, options.stride.value_or(kernel_size), options.padding, options.ceil_mode,
                    options.count_include_pad, options.divisor_override);
}

std::string AvgPool2d::extra_repr() const {
  return "kernel_size=" + short_repr(kernel_size) + ", stride=" + short_repr(options.stride.value_or(kernel_size)) +
         ", padding=" + short_repr(options.padding);
}

}  // namespace tessera::nn
