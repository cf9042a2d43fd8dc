// The gradient of connectionist temporal classification.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// grad (N): gradients of the losses; loss and log_alpha: the results of _ctc_loss. By operators that are differentiated
// themselves where somebody may ask for that.
Tensor ctc_gradient(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                    IntList target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                    bool zero_infinity);

}  // namespace tessera::autograd::formulas
