// With scores s = scale q k^T + mask, weights p = softmax(s), and for the gradient g of the result
//   dp = g v^T,  ds = p (dp - rowsum(dp p)),  dq = scale ds k,  dk = scale ds^T q,  dv = p^T g,
// the gradients of dq, dk, dv, here a, b, c, reach ds as u = scale (a k^T + q b^T), and from there dp and p.
#include "nn/formulas/attention_formulas.h"

#include "nn/attention_extra.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }
Tensor transposed(const Tensor& t) { return transpose(t, -2, -1); }
Tensor sum_over(const Tensor& t, int64_t dim, bool keepdim) { return sum(t, IntList(&dim, 1), keepdim); }
Tensor row_sum(const Tensor& t) { return sum_over(t, -1, true); }

// The sum over the query heads that share a head of keys.
Tensor gathered(const Tensor& t, const Tensor& like) {
  const int64_t heads = like.size(1);
  if (t.size(1) == heads) return t;
  const int64_t sizes[5] = {t.size(0), heads, t.size(1) / heads, t.size(2), t.size(3)};
  return sum_over(view(contiguous(t), IntList(sizes)), 2, false);
}

// Numbers as attention computes with them, keys and values for each head of the queries. Undefined stays.
struct Arithmetic {
  explicit Arithmetic(const Tensor& query) : dtype(kernels::attention_dtype(query.dtype())), heads(query.size(1)) {}
  Tensor plain(const Tensor& x) const { return x.defined() ? to(x, dtype) : Tensor(); }
  Tensor shared(const Tensor& x) const {
    return x.defined() ? kernels::attention_heads(to(x, dtype), heads) : Tensor();
  }
  DType dtype;
  int64_t heads;
};

// Of the scores, from those of queries and keys; undefined if there is none.
Tensor scores_tangent(const Tensor& q_t, const Tensor& k_t, const Tensor& q, const Tensor& k, const Scalar& factor) {
  if (!q_t.defined() && !k_t.defined()) return Tensor();
  return mul(plus(q_t.defined() ? matmul(q_t, transposed(k)) : Tensor(),
                  k_t.defined() ? matmul(q, transposed(k_t)) : Tensor()),
             factor);
}

// What the weights are multiplied by: m / (1 - dropout_p), where the mask m has what is kept.
Tensor kept_factors(const Tensor& query, const Tensor& key, const Tensor& words, double dropout_p, DType dtype) {
  return mul(to(kernels::attention_dropout_kept(query, key, words, dropout_p), dtype), Scalar(1 / (1 - dropout_p)));
}

// The tangent of the result with weights that are multiplied by `kept` (undefined: by 1).
Tensor tangent_of_result(const Tensor& query_t, const Tensor& key_t, const Tensor& value_t, const Tensor& query,
                         const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask,
                         std::optional<double> scale, const Tensor& kept) {
  const Arithmetic a(query);
  const Tensor q = a.plain(query), k = a.shared(key);
  const Scalar factor(kernels::attention_scale(query, scale));
  const Tensor p = kernels::attention_weights(q, k, attn_mask, is_causal, factor);
  const Tensor u = scores_tangent(a.plain(query_t), a.shared(key_t), q, k, factor);
  const auto left = [&](const Tensor& weights) { return kept.defined() ? weights * kept : weights; };
  Tensor result = value_t.defined() ? matmul(left(p), a.shared(value_t)) : Tensor();
  if (u.defined()) result = plus(result, matmul(left(p * (u - row_sum(p * u))), a.shared(value)));
  return to(result, query.dtype());
}

}  // namespace

Tensor attention_tangent(const Tensor& query_t, const Tensor& key_t, const Tensor& value_t, const Tensor& query,
                         const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask,
                         std::optional<double> scale) {
  return tangent_of_result(query_t, key_t, value_t, query, key, value, is_causal, attn_mask, scale, Tensor());
}

Tensor attention_dropout_tangent(const Tensor& query_t, const Tensor& key_t, const Tensor& value_t, const Tensor& query,
                                 const Tensor& key, const Tensor& value, const Tensor& attn_mask, const Tensor& words,
                                 double dropout_p, bool is_causal, std::optional<double> scale) {
  const Tensor kept = kept_factors(query, key, words, dropout_p, kernels::attention_dtype(query.dtype()));
  return tangent_of_result(query_t, key_t, value_t, query, key, value, is_causal, attn_mask, scale, kept);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_double_backward(
    const Tensor& to_query, const Tensor& to_key, const Tensor& to_value, const Tensor& grad_out, const Tensor& query,
    const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask, std::optional<double> scale) {
  if (!to_query.defined() && !to_key.defined() && !to_value.defined()) return {};
  const Arithmetic in(query);
  const Tensor q = in.plain(query), k = in.shared(key), v = in.shared(value), g = in.plain(grad_out);
  const Tensor a = in.plain(to_query), b = in.shared(to_key), c = in.shared(to_value);
  const Scalar factor(kernels::attention_scale(query, scale));
  const Tensor p = kernels::attention_weights(q, k, attn_mask, is_causal, factor);
  const Tensor dp = matmul(g, transposed(v)), r = row_sum(dp * p), ds = p * (dp - r);
  Tensor to_grad, to_p, q_out, k_out, v_out;
  if (const Tensor u = scores_tangent(a, b, q, k, factor); u.defined()) {
    const Tensor pu = row_sum(p * u), w = p * (u - pu);
    to_p = u * (dp - r) - pu * dp;
    to_grad = matmul(w, v);
    v_out = matmul(transposed(w), g);
    if (b.defined()) q_out = mul(matmul(ds, b), factor);
    if (a.defined()) k_out = mul(matmul(transposed(ds), a), factor);
  }
  if (c.defined()) {
    to_p = plus(to_p, matmul(g, transposed(c)));
    to_grad = plus(to_grad, matmul(p, c));
  }
  const Tensor to_scores = mul(p * (to_p - row_sum(to_p * p)), factor);
  q_out = plus(q_out, matmul(to_scores, k));
  k_out = plus(k_out, matmul(transposed(to_scores), q));
  return {to(to_grad, grad_out.dtype()), to(q_out, query.dtype()), to(gathered(k_out, key), key.dtype()),
          v_out.defined() ? to(gathered(v_out, value), value.dtype()) : Tensor()};
}

// As above, with pd = p m / (1 - dropout_p), where the mask m has what is kept, in the result and in dv.
std::tuple<Tensor, Tensor, Tensor> attention_dropout_backward(const Tensor& grad_out, const Tensor& query,
                                                              const Tensor& key, const Tensor& value,
                                                              const Tensor& attn_mask, const Tensor& out,
                                                              const Tensor& logsumexp, const Tensor& words,
                                                              double dropout_p, bool is_causal,
                                                              std::optional<double> scale) {
  if (!grad_mode_enabled() && words.dtype() != DType::kBool)
    return kernels::attention_dropout_gradient(grad_out, query, key, value, attn_mask, out, logsumexp, words, dropout_p,
                                               is_causal, scale);
  const Arithmetic in(query);
  const Tensor q = in.plain(query), k = in.shared(key), v = in.shared(value), g = in.plain(grad_out);
  const Scalar factor(kernels::attention_scale(query, scale));
  const Tensor p = kernels::attention_weights(q, k, attn_mask, is_causal, factor);
  const Tensor m = kept_factors(query, key, words, dropout_p, p.dtype());
  const Tensor dp = matmul(g, transposed(v)) * m, ds = mul(p * (dp - row_sum(dp * p)), factor);
  return {to(matmul(ds, k), query.dtype()), to(gathered(matmul(transposed(ds), q), key), key.dtype()),
          to(gathered(matmul(transposed(p * m), g), value), value.dtype())};
}

}  // namespace tessera::autograd::formulas
