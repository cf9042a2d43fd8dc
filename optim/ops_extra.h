// What the callees and expressions of ops.textproto refer to.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// Meta tensors have no values to change.
// A learning rate that is a tensor of one element.
double number_of(const Tensor& lr);

void adam_steps(bool decoupled_decay, TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const Tensor& grad_scale,
                const Tensor& found_inf);
template <bool kDecoupled>
void fused_adam(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const Tensor& grad_scale,
                const Tensor& found_inf) {
  adam_steps(kDecoupled, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2,
             weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

}  // namespace tessera::kernels
