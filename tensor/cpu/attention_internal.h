// What tensor/cpu/attention.cc asks of the SIMD kernels of attention_*.cc.
#pragma once

#include "tensor/cpu/attention.h"

namespace tessera::cpu::internal {

struct ForwardCall {
  AttentionShape shape;
  AttentionOperand query, key, value, out;
  AttentionMask mask;
  void* logsumexp;
};

struct BackwardCall {
  AttentionShape shape;
  AttentionOperand query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  AttentionMask mask;
  const void* logsumexp;
};

void attention_forward_f32(const ForwardCall& call);
void attention_forward_f64(const ForwardCall& call);
void attention_backward_f32(const BackwardCall& call);
void attention_backward_f64(const BackwardCall& call);

}  // namespace tessera::cpu::internal
