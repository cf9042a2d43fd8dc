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

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_double_backward(
    const Tensor& to_query, const Tensor& to_key, const Tensor& to_value, const Tensor& grad_out, const Tensor& query,
    const Tensor& key, const Tensor& value, bool is_causal, const Tensor& attn_mask, std::optional<double> scale) {
  if (!to_query.defined() && !to_key.defined() && !to_value.defined()) return {};
  const DType t = kernels::attention_dtype(query.dtype());
  const auto shared = [&](const Tensor& x) {
    return x.defined() ? kernels::attention_heads(to(x, t), query.size(1)) : Tensor();
  };
  const Tensor q = to(query, t), k = shared(key), v = shared(value), g = to(grad_out, t);
  const Tensor a = to_query.defined() ? to(to_query, t) : Tensor(), b = shared(to_key), c = shared(to_value);
  const Scalar factor(kernels::attention_scale(query, scale));
  const Tensor p = kernels::attention_weights(q, k, attn_mask, is_causal, factor);
  const Tensor dp = matmul(g, transposed(v)), r = row_sum(dp * p), ds = p * (dp - r);
  Tensor to_grad, to_p, q_out, k_out, v_out;
  if (a.defined() || b.defined()) {
    const Tensor u =
        mul(plus(a.defined() ? matmul(a, transposed(k)) : Tensor(), b.defined() ? matmul(q, transposed(b)) : Tensor()),
            factor);
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

}  // namespace tessera::autograd::formulas
