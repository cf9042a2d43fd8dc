// What nn/cpu/attention/attention.cc asks of the SIMD kernels of attention_*.cc.
#pragma once

#include "nn/cpu/attention/attention.h"

namespace tessera::cpu::internal {

struct ForwardCall {
  AttentionShape shape;
  AttentionOperand query, key, value, out;
  AttentionMask mask;
  void* logsumexp;
};

// Up to this many queries are computed one by one.
inline constexpr int64_t kFewQueries = 4;

struct BackwardCall {
  AttentionShape shape;
  AttentionOperand query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  AttentionMask mask;
  const void* logsumexp;
};

void attention_forward_f32(const ForwardCall& call);
void attention_forward_f64(const ForwardCall& call);
// False (and nothing is done) where there are no products of bfloat16 that are faster than those of float.
bool attention_forward_bf16(const ForwardCall& call);
void attention_backward_f32(const BackwardCall& call);
void attention_backward_f64(const BackwardCall& call);

}  // namespace tessera::cpu::internal
