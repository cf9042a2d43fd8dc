// Attention below the Tensor, computed in blocks: the matrix of scores is never stored.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Four-dimensional operand [batch, heads, positions, features]: strides in elements of the first three; features are
// dense (stride 1).
struct AttentionOperand {
  void* data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t position_stride;
};

// Mask over [batch, heads, queries, keys], strides in elements (0 broadcasts); data == nullptr: none. bool: true takes
// part; otherwise added to the scaled scores.
struct AttentionMask {
  const void* data;
  DType dtype;  // kBool, kFloat32, or the operands' dtype
  int64_t batch_stride;
  int64_t head_stride;
  int64_t query_stride;
  int64_t key_stride;
};

struct AttentionShape {
  DType dtype;  // float32, float64, float16, bfloat16 of query, key, value and result; scores and sums are in float32
                // (float64 for float64)
  int64_t batch;
  int64_t heads;     // of query and result
  int64_t kv_heads;  // of key and value; divides heads: query head h reads head h / (heads / kv_heads)
  int64_t queries;
  int64_t keys;
  int64_t dim;        // features of query and key
  int64_t value_dim;  // features of value and result
  double scale;       // of the scores, before the mask is added
  bool causal;        // query i sees keys 0 .. i
};

// out = softmax(scale * query key^T + mask) value; logsumexp (float32, float64 for float64; [batch, heads, queries],
// dense; may be null) gets the logarithm of each row's sum of exponentials. A query that sees no key gets zeros and a
// logsumexp of -infinity. Deterministic: blocks are cut by size alone.
void attention_forward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                       const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                       void* logsumexp);

// Gradients of query, key and value from that of `out`; gradients of key and value are sums over the query heads that
// share them. The mask's gradient is not computed.
void attention_backward(const AttentionShape& shape, const AttentionOperand& query, const AttentionOperand& key,
                        const AttentionOperand& value, const AttentionMask& mask, const AttentionOperand& out,
                        const void* logsumexp, const AttentionOperand& grad_out, const AttentionOperand& grad_query,
                        const AttentionOperand& grad_key, const AttentionOperand& grad_value);

}  // namespace tessera::cpu
