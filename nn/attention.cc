// Scaled dot product attention: computed in blocks (nn/cpu/attention/attention.h) where it can be, else by its
// definition.
#include <algorithm>
#include <cmath>

#include "nn/attention_choice.h"
#include "nn/attention_extra.h"
#include "nn/attention_kernels.h"
#include "nn/nn_ops.h"
#include "nn/cpu/attention/attention.h"
#include "nn/engine/attention.h"
#include "tensor/ops/dual.h"
#include "tensor/core/device_hooks.h"
#include "tensor/ops/api.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/result_memory.h"

namespace tessera::kernels {
namespace {

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double dropout_p,
                     bool is_causal) {
  TESSERA_CHECK(query.dtype() == key.dtype() && query.dtype() == value.dtype(),
                "Expected query, key, and value to have the same dtype, but got query.dtype: ", name_of(query.dtype()),
                " key.dtype: ", name_of(key.dtype()), " and value.dtype: ", name_of(value.dtype()), " instead.");
  TESSERA_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
                "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: ", query.dim(),
                ", key.dim: ", key.dim(), " and value.dim: ", value.dim(), " instead.");
  TESSERA_CHECK(query.size(-1) == key.size(-1), "Expected query and key to have the same last dimension, but got ",
                query.size(-1), " and ", key.size(-1));
  TESSERA_CHECK(key.size(-2) == value.size(-2), "Expected key and value to have the same sequence length, but got ",
                key.size(-2), " and ", value.size(-2));
  TESSERA_CHECK(dropout_p >= 0 && dropout_p <= 1, "dropout probability has to be between 0 and 1, but got ", dropout_p);
  if (!mask.defined()) return;
  TESSERA_CHECK(!is_causal, "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  TESSERA_CHECK(mask.dtype() == DType::kBool || mask.dtype() == DType::kFloat32 || mask.dtype() == query.dtype(),
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
                name_of(mask.dtype()), " and query.dtype: ", name_of(query.dtype()), " instead.");
}

// enable_gqa: checks that the heads of key or value can be shared out.
void check_shared_heads(const Tensor& t, const Tensor& query, const char* name) {
  TESSERA_CHECK(query.dim() >= 3 && t.dim() >= 3, "enable_gqa needs a dimension of heads: query and ", name,
                " of at least 3 dimensions, but got ", query.dim(), " and ", t.dim());
  const int64_t heads = query.size(-3), own = t.size(-3);
  TESSERA_CHECK(own > 0 && heads % own == 0, "Number of heads in ", name, " (", own,
                ") must divide the number of heads in query (", heads, ")");
}

// True at and below the diagonal.
Tensor causal_mask(const Tensor& query, const Tensor& key) {
  const int64_t sizes[2] = {query.size(-2), key.size(-2)};
  return tril(ones(IntList(sizes), DType::kBool, std::nullopt, query.device()), 0);
}

}  // namespace

DType attention_dtype(DType t) { return is_reduced_float(t) ? DType::kFloat32 : t; }
double attention_scale(const Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}
Tensor attention_heads(const Tensor& t, int64_t heads) {
  return t.size(-3) == heads ? t : repeat_interleave(t, heads / t.size(-3), -3);
}

Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& given_mask, bool is_causal,
                         const Scalar& factor) {
  Tensor scores = matmul(mul(query, factor), transpose(key, -2, -1));
  const Tensor mask = is_causal ? causal_mask(query, key) : given_mask;
  if (mask.defined())
    scores = mask.dtype() == DType::kBool ? masked_fill(scores, logical_not(mask), Scalar(-INFINITY))
                                          : add(scores, to(mask, scores.dtype()));
  // Causal masks always leave the first key.
  if (!given_mask.defined()) return softmax(scores, -1, std::nullopt);
  const Tensor sees_none = all(eq(scores, Scalar(-INFINITY)), -1, true);
  return masked_fill(softmax(masked_fill(scores, sees_none, 0), -1, std::nullopt), sees_none, 0);
}

std::tuple<Tensor, Tensor> attention_math(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const Tensor& attn_mask, double dropout_p, bool is_causal,
                                          const Tensor& dropout_mask, std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, dropout_p, is_causal);
  if (enable_gqa) {
    check_shared_heads(key, query, "key");
    check_shared_heads(value, query, "value");
  }
  // 16-bit types are rounded once, at the end.
  const DType given = query.dtype(), t = attention_dtype(given);
  const auto all_heads = [&](const Tensor& x) { return to(enable_gqa ? attention_heads(x, query.size(-3)) : x, t); };
  const Tensor weights =
      attention_weights(to(query, t), all_heads(key), attn_mask, is_causal, Scalar(attention_scale(query, scale)));
  Tensor used = weights;
  if (dropout_p > 0) {
    if (dropout_mask.defined())
      used = mul(masked_fill(weights, logical_not(dropout_mask), 0), Scalar(dropout_p < 1 ? 1 / (1 - dropout_p) : 0.0));
    else
      used = dropout(weights, dropout_p, true);
  }
  return {to(matmul(used, all_heads(value)), given), to(weights, given)};
}

// ---- In blocks ----

namespace {

bool block_dtype(DType t) { return t == DType::kFloat32 || t == DType::kFloat64 || is_reduced_float(t); }
bool block_device(const Tensor& t) {
  return t.device().is_cpu() || t.is_meta() || nn::AttentionEngines::of(t.device().type).attention_forward;
}

// Whether the operators below serve these arguments.
bool in_blocks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double dropout_p) {
  if (dropout_p != 0 || !block_dtype(query.dtype()) || !block_device(query) || key.device() != query.device() ||
      value.device() != query.device())
    return false;
  if (query.dim() > 4 || key.dim() > 4 || value.dim() > 4) return false;
  return !mask.defined() || (mask.dim() <= 4 && mask.device() == query.device() &&
                             !(mask.requires_grad() && grad_mode_enabled()) && !any_dual(mask));
}

// Whether weights may be dropped in blocks.
bool drops_in_blocks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                     double dropout_p) {
  return dropout_p > 0 && dropout_p < 1 && query.numel() > 0 && plain_on_device({&query, &key, &value, &mask}) &&
         nn::AttentionEngines::of(query.device().type).attention_dropout_forward;
}

// With leading dimensions of 1 up to four.
Tensor four_dimensional(Tensor t) {
  while (t.dim() < 4) t = unsqueeze(t, 0);
  return t;
}
int64_t broadcast_size(const char* what, std::initializer_list<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) {
    TESSERA_CHECK(s == n || s == 1 || n == 1, "scaled_dot_product_attention: sizes ", n, " and ", s, " of ", what,
                  " do not broadcast");
    if (s != 1) n = s;
  }
  return n;
}
Tensor with_leading_sizes(const Tensor& t, int64_t batch, int64_t heads) {
  if (t.size(0) == batch && t.size(1) == heads) return t;
  const int64_t sizes[4] = {batch, heads, t.size(2), t.size(3)};
  return expand(t, IntList(sizes));
}

Tensor attention_blocks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask,
                        double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  Tensor q = four_dimensional(query), k = four_dimensional(key), v = four_dimensional(value);
  const int64_t batch = broadcast_size("the batch", {q.size(0), k.size(0), v.size(0)});
  const int64_t heads = enable_gqa ? q.size(1) : broadcast_size("the heads", {q.size(1), k.size(1), v.size(1)});
  const int64_t shared = !enable_gqa ? heads : k.size(1) == v.size(1) ? k.size(1) : heads;
  if (enable_gqa && shared == heads) {
    k = attention_heads(k, heads);
    v = attention_heads(v, heads);
  }
  q = with_leading_sizes(q, batch, heads);
  k = with_leading_sizes(k, batch, shared);
  v = with_leading_sizes(v, batch, shared);
  const Tensor out =
      dropout_p > 0
          ? std::get<0>(_attention_dropout(q, k, v, attn_mask, dropout_p, is_causal, scale))
          : std::get<0>(_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal, attn_mask, scale));
  const int64_t rank = std::max({query.dim(), key.dim(), value.dim()});
  return rank == 4 ? out : rank == 3 ? squeeze(out, 0) : squeeze(squeeze(out, 0), 0);
}

// What the engine sees.
struct Call {
  cpu::AttentionShape shape;
  cpu::AttentionMask mask{};
  Tensor mask_tensor;  // what mask points to
};
Tensor dense_features(const Tensor& t) { return t.stride(3) == 1 || t.size(3) <= 1 ? t : contiguous(t); }
cpu::AttentionOperand operand(const Tensor& t) { return {t.data_ptr(), t.stride(0), t.stride(1), t.stride(2)}; }

Call make_call(const Tensor& query, const Tensor& key, const Tensor& value, double dropout_p, bool is_causal,
               const Tensor& attn_mask, std::optional<double> scale) {
  check_attention(query, key, value, attn_mask, dropout_p, is_causal);
  TESSERA_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
                "Accept only 4 dims inputs shape of {(B), H, T, K}, but got query.dim: ", query.dim(),
                " key.dim: ", key.dim(), " and value.dim: ", value.dim());
  TESSERA_CHECK(dropout_p == 0, "Currently do not support dropout > 0");
  TESSERA_CHECK_NOT_IMPLEMENTED(
      block_dtype(query.dtype()),
      "scaled_dot_product_attention_flash_attention: Expected data type in FP32, FP64, BF16, FP16, but got ",
      name_of(query.dtype()), " instead.");
  TESSERA_CHECK(key.size(0) == query.size(0) && value.size(0) == query.size(0),
                "Expected query, key and value of one batch size, but got ", query.size(0), ", ", key.size(0), " and ",
                value.size(0));
  TESSERA_CHECK(key.size(1) == value.size(1), "Expected key and value to have the same number of heads, but got ",
                key.size(1), " and ", value.size(1));
  TESSERA_CHECK(query.size(1) == key.size(1) || (key.size(1) > 0 && query.size(1) % key.size(1) == 0),
                "Number of heads in key and value (", key.size(1), ") must divide the number of heads in query (",
                query.size(1), ")");
  Call c;
  c.shape = {query.dtype(), query.size(0), query.size(1),
             key.size(1),   query.size(2), key.size(2),
             query.size(3), value.size(3), attention_scale(query, scale),
             is_causal};
  if (!attn_mask.defined()) return c;
  TESSERA_CHECK(attn_mask.dim() <= 4, "Expected attn_mask of at most 4 dimensions, but got ", attn_mask.dim());
  const int64_t sizes[4] = {c.shape.batch, c.shape.heads, c.shape.queries, c.shape.keys};
  c.mask_tensor = expand(attn_mask, IntList(sizes));
  return c;
}
// Once the tensors are known to have memory.
void set_mask(Call& c) {
  const Tensor& t = c.mask_tensor;
  if (t.defined()) c.mask = {t.data_ptr(), t.dtype(), t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}

// [batch, heads, positions, features], the heads of a position side by side if they are so in `like`.
Tensor empty_result(const Tensor& like, int64_t features) {
  if (like.stride(1) >= like.stride(2)) {
    const int64_t sizes[4] = {like.size(0), like.size(1), like.size(2), features};
    return empty_from(OutputSpec(IntList(sizes), like.dtype(), like.device()));
  }
  const int64_t sizes[4] = {like.size(0), like.size(2), like.size(1), features};
  return transpose(empty_from(OutputSpec(IntList(sizes), like.dtype(), like.device())), 1, 2);
}
Tensor empty_logsumexp(const Tensor& query) {
  return empty_from(OutputSpec(query.sizes().first(3), attention_dtype(query.dtype()), query.device()));
}

}  // namespace

Tensor scaled_dot_product_attention_composite(const Tensor& query, const Tensor& key, const Tensor& value,
                                              const Tensor& attn_mask, double dropout_p, bool is_causal,
                                              std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, dropout_p, is_causal);
  const AttentionChoice choice = attention_choice();
  const bool fused = choice.blocks(query.device()), drops = drops_in_blocks(query, key, value, attn_mask, dropout_p);
  TESSERA_CHECK(fused || choice.definition,
                "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both "
                "the math kernel and the fused kernels.");
  if (!fused || !in_blocks(query, key, value, attn_mask, drops ? 0 : dropout_p)) {
    // What is seen by transforms has no fused dropout: it is no reason to fail on devices.
    TESSERA_CHECK(choice.definition || (dropout_p > 0 && !query.device().is_cpu()),
                  "No available kernel.  Aborting execution.");
    return std::get<0>(_scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, Tensor(),
                                                          scale, enable_gqa));
  }
  if (enable_gqa) {
    check_shared_heads(key, query, "key");
    check_shared_heads(value, query, "value");
  }
  return attention_blocks(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

// With dropout.
std::tuple<Tensor, Tensor, Tensor> _attention_dropout_meta(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& attn_mask, double dropout_p, bool is_causal,
                                                           std::optional<double> scale) {
  TESSERA_CHECK(dropout_p > 0 && dropout_p < 1, "_attention_dropout: expected a probability between 0 and 1, but got ",
                dropout_p);
  make_call(query, key, value, 0, is_causal, attn_mask, scale);
  if (query.device().is_cpu() || query.is_meta()) {
    const int64_t kept[4] = {query.size(0), query.size(1), query.size(2), key.size(2)}, none = 0;
    return {empty_result(query, value.size(3)),
            empty_from(OutputSpec(IntList(&none, 1), attention_dtype(query.dtype()), query.device())),
            empty_from(OutputSpec(IntList(kept), DType::kBool, query.device()))};
  }
  const int64_t two = 2;
  return {empty_result(query, value.size(3)), empty_logsumexp(query),
          empty_from(OutputSpec(IntList(&two, 1), DType::kInt64, query.device()))};
}
std::tuple<Tensor, Tensor, Tensor> _attention_dropout_kernel(const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const Tensor& attn_mask,
                                                             double dropout_p, bool is_causal,
                                                             std::optional<double> scale) {
  const auto results = _attention_dropout_meta(query, key, value, attn_mask, dropout_p, is_causal, scale);
  const auto& [out, logsumexp, words] = results;
  const Device device = query.device();
  if (device.is_cpu()) {
    bernoulli_(words, 1 - dropout_p);
    copy__kernel(out,
                 std::get<0>(attention_math(query, key, value, attn_mask, dropout_p, is_causal, words, scale,
                                            key.size(1) != query.size(1))),
                 false);
    return results;
  }
  const auto engine = nn::AttentionEngines::of(internal::select_device(device, "attention")).attention_dropout_forward;
  TESSERA_CHECK_NOT_IMPLEMENTED(engine, "_attention_dropout: there is no kernel for ", device.str());
  Call c = make_call(query, key, value, 0, is_causal, attn_mask, scale);
  set_mask(c);
  const Tensor q = dense_features(query), k = dense_features(key), v = dense_features(value);
  engine(c.shape, operand(q), operand(k), operand(v), c.mask, dropout_p,
         device_hooks(device.type).default_generator(device), operand(out), logsumexp.data_ptr(),
         static_cast<uint64_t*>(words.data_ptr()));
  return results;
}
std::tuple<Tensor, Tensor, Tensor> attention_dropout_gradient(const Tensor& grad_out, const Tensor& query,
                                                              const Tensor& key, const Tensor& value,
                                                              const Tensor& attn_mask, const Tensor& out,
                                                              const Tensor& logsumexp, const Tensor& words,
                                                              double dropout_p, bool is_causal,
                                                              std::optional<double> scale) {
  const auto results =
      attention_backward_meta(grad_out, query, key, value, out, logsumexp, 0, is_causal, attn_mask, scale);
  const auto& [dq, dk, dv] = results;
  if (logsumexp.numel() == 0 || key.size(2) == 0) {
    for (const Tensor& t : {dq, dk, dv}) zero_(t);
    return results;
  }
  Call c = make_call(query, key, value, 0, is_causal, attn_mask, scale);
  set_mask(c);
  const Tensor q = dense_features(query), k = dense_features(key), v = dense_features(value), o = dense_features(out),
               g = dense_features(to(grad_out, query.dtype())), lse = contiguous(logsumexp), w = contiguous(words);
  nn::AttentionEngines::of(internal::select_device(query.device(), "attention"))
      .attention_dropout_backward(c.shape, operand(q), operand(k), operand(v), c.mask, dropout_p,
                                  static_cast<const uint64_t*>(w.data_ptr()), operand(o), lse.data_ptr(), operand(g),
                                  operand(dq), operand(dk), operand(dv));
  return results;
}
Tensor attention_dropout_kept(const Tensor& query, const Tensor& key, const Tensor& words, double dropout_p) {
  if (words.dtype() == DType::kBool) return words;
  cpu::AttentionShape shape{};
  shape.batch = query.size(0);
  shape.heads = query.size(1);
  shape.queries = query.size(2);
  shape.keys = key.size(2);
  const int64_t sizes[4] = {shape.batch, shape.heads, shape.queries, shape.keys};
  const Tensor kept = empty_from(OutputSpec(IntList(sizes), DType::kBool, query.device())), w = contiguous(words);
  nn::AttentionEngines::of(internal::select_device(query.device(), "attention"))
      .attention_dropout_kept(shape, dropout_p, static_cast<const uint64_t*>(w.data_ptr()),
                              static_cast<bool*>(kept.data_ptr()));
  return kept;
}

std::tuple<Tensor, Tensor> attention_forward_meta(const Tensor& query, const Tensor& key, const Tensor& value,
                                                  double dropout_p, bool is_causal, const Tensor& attn_mask,
                                                  std::optional<double> scale) {
  make_call(query, key, value, dropout_p, is_causal, attn_mask, scale);
  return {empty_result(query, value.size(3)), empty_logsumexp(query)};
}
std::tuple<Tensor, Tensor> _scaled_dot_product_flash_attention_for_cpu_kernel(const Tensor& query, const Tensor& key,
                                                                              const Tensor& value, double dropout_p,
                                                                              bool is_causal, const Tensor& attn_mask,
                                                                              std::optional<double> scale) {
  Call c = make_call(query, key, value, dropout_p, is_causal, attn_mask, scale);
  const Tensor out = empty_result(query, value.size(3)), logsumexp = empty_logsumexp(query);
  if (logsumexp.numel() == 0) return {out, logsumexp};
  set_mask(c);
  const Tensor q = dense_features(query), k = dense_features(key), v = dense_features(value);
  TESSERA_ON(query.device(), attention_forward)
  (c.shape, operand(q), operand(k), operand(v), c.mask, operand(out), logsumexp.data_ptr());
  return {out, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward_meta(const Tensor& grad_out, const Tensor& query,
                                                           const Tensor& key, const Tensor& value, const Tensor& out,
                                                           const Tensor& logsumexp, double dropout_p, bool is_causal,
                                                           const Tensor& attn_mask, std::optional<double> scale) {
  make_call(query, key, value, dropout_p, is_causal, attn_mask, scale);
  TESSERA_CHECK(std::ranges::equal(grad_out.sizes(), out.sizes()), "Expected grad_out of size ",
                shape_string(out.sizes()), ", but got ", shape_string(grad_out.sizes()));
  TESSERA_CHECK(out.dim() == 4 && std::ranges::equal(out.sizes().first(3), query.sizes().first(3)) &&
                    out.size(3) == value.size(3),
                "Expected out to fit query and value, but got size ", shape_string(out.sizes()));
  TESSERA_CHECK(std::ranges::equal(logsumexp.sizes(), query.sizes().first(3)) &&
                    logsumexp.dtype() == attention_dtype(query.dtype()),
                "Expected logsumexp of size ", shape_string(query.sizes().first(3)), ", but got ",
                shape_string(logsumexp.sizes()));
  return {empty_result(query, query.size(3)), empty_result(key, key.size(3)), empty_result(value, value.size(3))};
}
std::tuple<Tensor, Tensor, Tensor> _scaled_dot_product_flash_attention_for_cpu_backward_kernel(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& out,
    const Tensor& logsumexp, double dropout_p, bool is_causal, const Tensor& attn_mask, std::optional<double> scale) {
  Call c = make_call(query, key, value, dropout_p, is_causal, attn_mask, scale);
  auto [dq, dk, dv] =
      attention_backward_meta(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale);
  if (logsumexp.numel() == 0 || key.size(2) == 0) {
    for (const Tensor& t : {dq, dk, dv}) zero_(t);
    return {dq, dk, dv};
  }
  set_mask(c);
  const Tensor q = dense_features(query), k = dense_features(key), v = dense_features(value), o = dense_features(out),
               g = dense_features(to(grad_out, query.dtype()));
  const Tensor lse = contiguous(logsumexp);
  TESSERA_ON(query.device(), attention_backward)
  (c.shape, operand(q), operand(k), operand(v), c.mask, operand(o), lse.data_ptr(), operand(g), operand(dq),
   operand(dk), operand(dv));
  return {dq, dk, dv};
}

}  // namespace tessera::kernels
