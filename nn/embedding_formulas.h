// Second derivative of embedding.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// The gradient of embedding_dense_backward's grad_output: the rows of grad, without padding, by their frequency.
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx, bool scale_grad_by_freq);

}  // namespace tessera::autograd::formulas
