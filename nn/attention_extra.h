// Parts of attention written with differentiable operators, for its definition and its second derivative.
#pragma once

#include <optional>
#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// The dtype of scores and sums.
DType attention_dtype(DType t);
// `scale`, or 1 / sqrt(features).
double attention_scale(const Tensor& query, std::optional<double> scale);
// Heads (dimension -3) of key or value, each repeated for the query heads that share it.
Tensor attention_heads(const Tensor& t, int64_t heads);
// softmax(factor query key^T + mask); zeros for a query that sees no key.
Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                         const Scalar& factor);

// Of _attention_dropout on a device: the gradients of query, key and value, and the weights that are kept.
std::tuple<Tensor, Tensor, Tensor> attention_dropout_gradient(const Tensor& grad_out, const Tensor& query,
                                                              const Tensor& key, const Tensor& value,
                                                              const Tensor& attn_mask, const Tensor& out,
                                                              const Tensor& logsumexp, const Tensor& words,
                                                              double dropout_p, bool is_causal,
                                                              std::optional<double> scale);
Tensor attention_dropout_kept(const Tensor& query, const Tensor& key, const Tensor& words, double dropout_p);

}  // namespace tessera::kernels
