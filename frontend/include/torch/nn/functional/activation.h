// Activations, dropout and attention as functions.
#pragma once

#include <torch/nn/functional/linear.h>

namespace torch::nn::functional {

#define TESSERA_MAYBE_INPLACE(fn, Options, ...)                                \
  inline Tensor fn(Tensor input, const Options& o = {}) {                      \
    using at::fn;                                                              \
    using at::fn##_;                                                           \
    detail::Raw& x = input;                                                    \
    return o.inplace() ? Tensor(fn##_(__VA_ARGS__)) : Tensor(fn(__VA_ARGS__)); \
  }
TESSERA_MAYBE_INPLACE(relu, ReLUFuncOptions, x)
TESSERA_MAYBE_INPLACE(relu6, ReLU6FuncOptions, x)
TESSERA_MAYBE_INPLACE(elu, ELUFuncOptions, x, o.alpha())
TESSERA_MAYBE_INPLACE(selu, SELUFuncOptions, x)
TESSERA_MAYBE_INPLACE(celu, CELUFuncOptions, x, o.alpha())
TESSERA_MAYBE_INPLACE(silu, SiLUFuncOptions, x)
TESSERA_MAYBE_INPLACE(mish, MishFuncOptions, x)
TESSERA_MAYBE_INPLACE(hardsigmoid, HardsigmoidFuncOptions, x)
TESSERA_MAYBE_INPLACE(hardswish, HardswishFuncOptions, x)
TESSERA_MAYBE_INPLACE(hardtanh, HardtanhFuncOptions, x, o.min_val(), o.max_val())
TESSERA_MAYBE_INPLACE(leaky_relu, LeakyReLUFuncOptions, x, o.negative_slope())
TESSERA_MAYBE_INPLACE(rrelu, RReLUFuncOptions, x, o.lower(), o.upper(), o.training())
#undef TESSERA_MAYBE_INPLACE

inline Tensor threshold(Tensor input, const ThresholdFuncOptions& o) {
  if (o.inplace()) return at::threshold_(input, o.threshold(), o.value());
  return at::threshold(input, o.threshold(), o.value());
}
inline Tensor hardshrink(const Tensor& input, const HardshrinkFuncOptions& o = {}) {
  return at::hardshrink(input, o.lambda());
}
inline Tensor softshrink(const Tensor& input, const SoftshrinkFuncOptions& o = {}) {
  return at::softshrink(input, o.lambda());
}
inline Tensor softplus(const Tensor& input, const SoftplusFuncOptions& o = {}) {
  return at::softplus(input, o.beta(), o.threshold());
}
inline Tensor gelu(const Tensor& input, const GELUFuncOptions& o = {}) { return at::gelu(input, o.approximate()); }
inline Tensor glu(const Tensor& input, const GLUFuncOptions& o = {}) {
  TORCH_CHECK(input.dim() != 0, "glu does not support scalars because halving size must be even");
  return at::glu(input, o.dim());
}
inline Tensor prelu(const Tensor& input, const Tensor& weight) { return at::prelu(input, weight); }
inline Tensor logsigmoid(const Tensor& input) { return at::log_sigmoid(input); }
inline Tensor softsign(const Tensor& input) {
  const detail::Raw& x = input;
  return at::div(x, at::add(at::abs(x), 1));
}
inline Tensor tanhshrink(const Tensor& input) { return at::sub(input, at::tanh(input)); }
inline Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& o) {
  return at::softmax(input, o.dim(), o.dtype());
}
inline Tensor softmin(const Tensor& input, const SoftminFuncOptions& o) {
  return at::softmax(at::neg(input), o.dim(), o.dtype());
}
inline Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& o) {
  return at::log_softmax(input, o.dim(), o.dtype());
}
// Samples of the relaxed categorical distribution; hard: one-hot, with the gradient of the soft ones.
inline Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& o = {}) {
  const detail::Raw noise = at::neg(at::log(at::empty_like(logits).exponential_()));
  const detail::Raw soft = at::softmax(at::div(at::add(logits, noise), o.tau()), o.dim());
  if (!o.hard()) return soft;
  const auto best = at::argmax(soft, o.dim(), true);
  const detail::Raw hard = at::scatter(at::zeros_like(logits), o.dim(), best, 1.0);
  return at::add(at::sub(hard, soft.detach()), soft);
}

// ---- dropout ----

#define TESSERA_DROPOUT(fn, op, Options)                                                                             \
  inline Tensor fn(Tensor input, const Options& o = {}) {                                                            \
    TORCH_CHECK(o.p() >= 0. && o.p() <= 1., "dropout probability has to be between 0 and 1, but got ", o.p());       \
    return o.inplace() ? Tensor(at::op##_(input, o.p(), o.training())) : Tensor(at::op(input, o.p(), o.training())); \
  }
TESSERA_DROPOUT(dropout, dropout, DropoutFuncOptions)
TESSERA_DROPOUT(dropout1d, feature_dropout, Dropout1dFuncOptions)
TESSERA_DROPOUT(dropout2d, feature_dropout, Dropout2dFuncOptions)
TESSERA_DROPOUT(dropout3d, feature_dropout, Dropout3dFuncOptions)
TESSERA_DROPOUT(alpha_dropout, alpha_dropout, AlphaDropoutFuncOptions)
TESSERA_DROPOUT(feature_alpha_dropout, feature_alpha_dropout, FeatureAlphaDropoutFuncOptions)
#undef TESSERA_DROPOUT

// ---- attention ----

namespace detail {

// A boolean mask as terms of the scores, -inf where it is true.
inline Raw additive(const Raw& mask, const Raw& like) {
  if (!mask.defined() || mask.is_floating_point()) return mask;
  return at::masked_fill(at::zeros_like(mask, like.dtype()), mask.dtype() == at::kBool ? mask : at::ne(mask, 0),
                         -std::numeric_limits<double>::infinity());
}

inline std::vector<Raw> projected(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const MultiheadAttentionForwardFuncOptions& o) {
  std::vector<Raw> weights, biases(3), result;
  if (o.use_separate_proj_weight())
    weights = {o.q_proj_weight(), o.k_proj_weight(), o.v_proj_weight()};
  else
    weights = at::chunk(o.in_proj_weight(), 3);
  if (o.in_proj_bias().defined()) biases = at::chunk(o.in_proj_bias(), 3);
  const Tensor* inputs[] = {&query, &key, &value};
  for (int i = 0; i < 3; ++i) result.push_back(at::linear(*inputs[i], weights[i], biases[i]));
  return result;
}

}  // namespace detail

// Multi-head attention (Vaswani et al. 2017) of query (L, N, E) to key (S, N, Ek) and value (S, N, Ev): the output
// (L, N, E), and the weights (N, L, S), of each head (N, H, L, S), or none.
inline std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key,
                                                               const Tensor& value,
                                                               const MultiheadAttentionForwardFuncOptions& o) {
  using detail::Raw;
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, "query, key and value must have 3 dimensions");
  const int64_t length = query.size(0), batch = query.size(1), e = query.size(2), heads = o.num_heads();
  TORCH_CHECK(e == o.embed_dim_to_check(), "expected queries of ", o.embed_dim_to_check(), " features, but got ", e);
  TORCH_CHECK(key.size(0) == value.size(0) && key.size(1) == value.size(1), "key and value differ in length or batch");
  const int64_t dim = e / heads;
  TORCH_CHECK(dim * heads == e, "embed_dim must be divisible by num_heads");

  auto qkv = detail::projected(query, key, value, o);
  // What is added to the scores; unlike the padding's mask, booleans are the numbers 0 and 1 here, as documented.
  Raw mask = o.attn_mask(), padding = detail::additive(o.key_padding_mask(), query);
  const int64_t several[] = {0, 1};
  const auto more_keys = [&] {  // one that all see
    for (Raw* m : {&mask, &padding})
      if (m->defined()) *m = at::constant_pad_nd(*m, at::IntArrayRef(several));
  };
  if (o.bias_k().defined() && o.bias_v().defined()) {
    TORCH_CHECK(!o.static_k().defined() && !o.static_v().defined(), "bias cannot be added to static key and value");
    qkv[1] = at::cat(std::vector<Raw>{qkv[1], at::repeat(o.bias_k(), {1, batch, 1})});
    qkv[2] = at::cat(std::vector<Raw>{qkv[2], at::repeat(o.bias_v(), {1, batch, 1})});
    more_keys();
  } else {
    TORCH_CHECK(!o.bias_k().defined() && !o.bias_v().defined(), "bias_k and bias_v have to be given together");
  }
  const auto split = [&](const Raw& t) {
    return at::transpose(at::view(at::contiguous(t), {t.size(0), batch * heads, dim}), 0, 1);
  };
  const Raw q = split(at::mul(qkv[0], std::pow(static_cast<double>(dim), -0.5)));
  Raw k = o.static_k().defined() ? Raw(o.static_k()) : split(qkv[1]);
  Raw v = o.static_v().defined() ? Raw(o.static_v()) : split(qkv[2]);
  for (const Raw* t : {&k, &v})
    TORCH_CHECK(t->size(0) == batch * heads && t->size(2) == dim, "static keys and values must be (", batch * heads,
                ", any, ", dim, ")");
  if (o.add_zero_attn()) {
    for (Raw* t : {&k, &v}) *t = at::cat(std::vector<Raw>{*t, at::zeros({batch * heads, 1, dim}, t->options())}, 1);
    more_keys();
  }
  const int64_t keys = k.size(1);

  Raw scores = at::bmm(q, at::transpose(k, 1, 2));
  if (mask.defined()) {
    if (mask.dim() == 2) mask = at::unsqueeze(mask, 0);
    const bool fits = mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == batch * heads) &&
                      mask.size(1) == length && mask.size(2) == keys;
    TORCH_CHECK(fits, "The size of attn_mask is not correct");
    scores = at::add(scores, mask);
  }
  if (padding.defined()) {
    TORCH_CHECK(padding.dim() == 2 && padding.size(0) == batch && padding.size(1) == keys, "key_padding_mask must be (",
                batch, ", ", keys, ")");
    scores = at::view(scores, {batch, heads, length, keys});
    scores = at::add(scores, at::view(at::contiguous(padding), {batch, 1, 1, keys}));
    scores = at::view(scores, {batch * heads, length, keys});
  }
  Raw weights = at::dropout(at::softmax(scores, -1), o.dropout_p(), o.training());
  Raw out = at::contiguous(at::transpose(at::bmm(weights, v), 0, 1));
  out = at::linear(at::view(out, {length, batch, e}), o.out_proj_weight(), o.out_proj_bias());
  if (!o.need_weights()) return {out, Tensor()};
  weights = at::view(weights, {batch, heads, length, keys});
  const int64_t over[] = {1};
  return {out, o.average_attn_weights() ? at::mean(weights, at::IntArrayRef(over)) : weights};
}

}  // namespace torch::nn::functional
