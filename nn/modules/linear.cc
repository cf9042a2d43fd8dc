#include "nn/modules/init.h"
#include "nn/modules/layers.h"
#include "tensor/ops/matmul_ops.h"

namespace tessera::nn {

Linear::Linear(int64_t in_features, int64_t out_features, bool bias, DType dtype)
    : in_features(in_features), out_features(out_features) {
  weight = register_parameter("weight", empty_kernel(IntVector{out_features, in_features}, dtype));
  this->bias = register_parameter("bias", bias ? empty_kernel(IntVector{out_features}, dtype) : Tensor());
  reset_parameters();
}

void Linear::reset_parameters() { init::linear_defaults_(weight, bias); }

Tensor Linear::forward(const Tensor& input) { return linear(input, weight, bias); }

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) + ", out_features=" + std::to_string(out_features) +
         ", bias=" + internal::repr(bias.defined());
}

}  // namespace tessera::nn
