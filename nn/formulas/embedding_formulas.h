// Derivatives of embeddings.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// The gradient of embedding_dense_backward's grad_output: the rows of grad, without padding, by their frequency.
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx,
                                 bool scale_grad_by_freq);

// The gradients of _embedding_bag's table and factors. offset2bag, bag_size, max_indices: its other results.
Tensor embedding_bag_backward(const Tensor& grad, const Tensor& indices, const Tensor& offset2bag,
                              const Tensor& bag_size, const Tensor& max_indices, int64_t num_weights,
                              bool scale_grad_by_freq, int64_t mode, bool sparse, const Tensor& per_sample_weights,
                              int64_t padding_idx);
Tensor embedding_bag_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                                      const Tensor& offset2bag, int64_t padding_idx);

}  // namespace tessera::autograd::formulas
