// Optimizer steps, below the Tensor.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// One optimizer step over one parameter of n elements, all arrays contiguous of dtype, arithmetic as documented for
// each optimizer; null state means "not kept".
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first_step;
};
void sgd_step(DType dtype, int64_t n, const SgdStep& s, void* param, const void* grad, void* momentum_buffer);
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled_decay, amsgrad, maximize;
  double step;
};
void adam_step(DType dtype, int64_t n, const AdamStep& s, void* param, const void* grad, void* exp_avg,
               void* exp_avg_sq, void* max_exp_avg_sq);

}  // namespace tessera::cpu
