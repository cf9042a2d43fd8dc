// The negative log likelihood, below the Tensor. All arrays are contiguous.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class LossReduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };
// x: (batch, classes, inner) log-probabilities, target int64 (batch, inner), weight (classes) or null. out: batch*inner
// elements for kNone, else 1; total_weight: 1 element. A target outside [0, classes) other than ignore_index:
// IndexError "Target 7 is out of bounds." before anything is written.
void nll_loss_forward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x, const int64_t* target,
                      const void* weight, LossReduction reduction, int64_t ignore_index, void* out, void* total_weight);
void nll_loss_backward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy,
                       const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                       const void* total_weight, void* dx);

}  // namespace tessera::cpu
