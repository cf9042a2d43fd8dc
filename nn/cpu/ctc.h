// Connectionist temporal classification (A. Graves et al., ICML 2006), below the Tensor.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

struct CtcBatch {
  int64_t steps, batch, classes, blank;
  int64_t states;  // 2 * the longest target + 1: labels with blanks around them
  const int64_t* const* targets;
  const int64_t *input_lengths, *target_lengths;
};

// log_probs: (steps, batch, classes), float32 or float64. loss: (batch), -log of the probability of all alignments, inf
// if there are none. log_alpha: (batch, steps, states): log of the probability of the beginnings that end in a state;
// -inf behind a sequence's length.
void ctc_forward(DType dtype, const CtcBatch& b, const void* log_probs, void* loss, void* log_alpha);
// grad: (steps, batch, classes), the gradient of the scores whose log_softmax log_probs is, for gradients grad_loss of
// the losses, `stride` apart: exp(log_probs) minus the expected number of visits; 0 behind a sequence's length. Of an
// infinite loss: NaN, or 0 with zero_infinity.
void ctc_backward(DType dtype, const CtcBatch& b, const void* log_probs, const void* loss, const void* log_alpha,
                  const void* grad_loss, int64_t stride, bool zero_infinity, void* grad);

}  // namespace tessera::cpu
