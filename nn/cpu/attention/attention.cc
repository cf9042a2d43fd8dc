#include "nn/cpu/attention/attention.h"

#include "nn/cpu/attention/attention_internal.h"

namespace tessera::cpu {

void attention_forward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                       const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                       void* logsumexp) {
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  const internal::ForwardCall call{shape, query, key, value, out, mask, logsumexp};
  if (shape.dtype == DType::kBFloat16 && shape.queries > internal::kFewQueries &&
      internal::attention_forward_bf16(call))
    return;
  shape.dtype == DType::kFloat64 ? internal::attention_forward_f64(call) : internal::attention_forward_f32(call);
}

void attention_backward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                        const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                        const void* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query,
                        const AttentionOperand& grad_key, const AttentionOperand& grad_value) {
  if (shape.batch == 0 || shape.kv_heads == 0) return;
  const internal::BackwardCall call{shape,      query,    key,        value, out,      grad_out,
                                    grad_query, grad_key, grad_value, mask,  logsumexp};
  shape.dtype == DType::kFloat64 ? internal::attention_backward_f64(call) : internal::attention_backward_f32(call);
}

}  // namespace tessera::cpu
