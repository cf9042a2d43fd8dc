// Derivatives of attention beyond its own backward operator.
#pragma once

#include <optional>
#include <tuple>

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// What arrives for the gradients of query, key and value (undefined: nothing), carried on to grad_out, query, key and
// value. Differentiable again.
std::tuple<Tensor, Tensor, Tensor, Tensor> attention_double_backward(
    const Tensor& to_query, const Tensor& to_key, const Tensor& to_value, const Tensor& grad_out, const Tensor& query,
    const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask, std::optional<double> scale);

// The tangent of attention's result; some of the inputs' may be undefined.
Tensor attention_tangent(const Tensor& query_t, const Tensor& key_t, const Tensor& value_t, const Tensor& query,
                         const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask,
                         std::optional<double> scale);

// The same of _attention_dropout, whose second and third results tell what was kept.
Tensor attention_dropout_tangent(const Tensor& query_t, const Tensor& key_t, const Tensor& value_t, const Tensor& query,
                                 const Tensor& key, const Tensor& value, const Tensor& attn_mask, const Tensor& words,
                                 double dropout_p, bool is_causal, std::optional<double> scale);

// Of _attention_dropout: without the matrix of scores where no graph is made.
std::tuple<Tensor, Tensor, Tensor> attention_dropout_backward(const Tensor& grad_out, const Tensor& query,
                                                              const Tensor& key, const Tensor& value,
                                                              const Tensor& attn_mask, const Tensor& out,
                                                              const Tensor& logsumexp, const Tensor& words,
                                                              double dropout_p, bool is_causal,
                                                              std::optional<double> scale);

}  // namespace tessera::autograd::formulas
