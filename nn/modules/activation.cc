#include "nn/activation_ops.h"
#include "nn/modules/layers.h"
#include "tensor/ops/functions_ops.h"

namespace tessera::nn {

Tensor ReLU::forward(const Tensor& input) { return inplace ? relu_(input) : relu(input); }
Tensor GELU::forward(const Tensor& input) { return gelu(input, approximate); }
Tensor Tanh::forward(const Tensor& input) { return tanh(input); }
Tensor Sigmoid::forward(const Tensor& input) { return sigmoid(input); }

}  // namespace tessera::nn
