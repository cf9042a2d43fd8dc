// Scaled dot product attention, by its definition.
#include <cmath>

#include "nn/attention_kernels.h"
#include "nn/nn_ops.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double dropout_p, bool is_causal) {
  TESSERA_CHECK(query.dtype() == key.dtype() && query.dtype() == value.dtype(), "Expected query, key, and value to have the same dtype, but got query.dtype: ", name_of(query.dtype()),
                " key.dtype: ", name_of(key.dtype()), " and value.dtype: ", name_of(value.dtype()), " instead.");
  TESSERA_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: ", query.dim(), ", key.dim: ", key.dim(),
                " and value.dim: ", value.dim(), " instead.");
  TESSERA_CHECK(query.size(-1) == key.size(-1), "Expected query and key to have the same last dimension, but got ", query.size(-1), " and ", key.size(-1));
  TESSERA_CHECK(key.size(-2) == value.size(-2), "Expected key and value to have the same sequence length, but got ", key.size(-2), " and ", value.size(-2));
  TESSERA_CHECK(dropout_p >= 0 && dropout_p <= 1, "dropout probability has to be between 0 and 1, but got ", dropout_p);
  if (!mask.defined()) return;
  TESSERA_CHECK(!is_causal, "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  TESSERA_CHECK(mask.dtype() == DType::kBool || mask.dtype() == DType::kFloat32 || mask.dtype() == query.dtype(), "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
                name_of(mask.dtype()), " and query.dtype: ", name_of(query.dtype()), " instead.");
}

// Heads of key or value, each repeated for the queries that share it.
Tensor repeat_heads(const Tensor& t, const Tensor& query, const char* name) {
  TESSERA_CHECK(query.dim() >= 3 && t.dim() >= 3, "enable_gqa needs a dimension of heads: query and ", name, " of at least 3 dimensions, but got ", query.dim(), " and ", t.dim());
  const int64_t heads = query.size(-3), own = t.size(-3);
  TESSERA_CHECK(own > 0 && heads % own == 0, "Number of heads in ", name, " (", own, ") must divide the number of heads in query (", heads, ")");
  return own == heads ? t : repeat_interleave(t, heads / own, -3);
}

}  // namespace

std::tuple<Tensor, Tensor> attention_math(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask, double dropout_p, bool is_causal, const Tensor& dropout_mask,
                                          std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, dropout_p, is_causal);
  const DType given = query.dtype();
  // 16-bit types are rounded once, at the end.
  const DType t = given == DType::kFloat16 || given == DType::kBFloat16 ? DType::kFloat32 : given;
  const Tensor q = to(query, t), k = to(enable_gqa ? repeat_heads(key, query, "key") : key, t), v = to(enable_gqa ? repeat_heads(value, query, "value") : value, t);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  Tensor scores = matmul(mul(q, Scalar(factor)), transpose(k, -2, -1));
  Tensor mask = attn_mask;
  if (is_causal) {
    const int64_t sizes[2] = {query.size(-2), key.size(-2)};
    mask = tril(ones(IntList(sizes), DType::kBool, std::nullopt, query.device()), 0);
  }
  if (mask.defined()) {
    const Scalar minus_infinity(-INFINITY);
    scores = mask.dtype() == DType::kBool ? masked_fill(scores, logical_not(mask), minus_infinity) : add(scores, to(mask, t));
  }
  Tensor weights = softmax(scores, -1, std::nullopt);
  // A query that may see nothing gets nothing. (Causal masks always leave the first key.)
  if (attn_mask.defined()) weights = masked_fill(weights, all(eq(scores, Scalar(-INFINITY)), -1, true), 0);
  Tensor used = weights;
  if (dropout_p > 0) {
    if (dropout_mask.defined()) used = mul(masked_fill(weights, logical_not(dropout_mask), 0), Scalar(dropout_p < 1 ? 1 / (1 - dropout_p) : 0.0));
    else used = dropout(weights, dropout_p, true);
  }
  return {to(matmul(used, v), given), to(weights, given)};
}

}  // namespace tessera::kernels
