// What the expressions of loss.textproto call besides operators.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// The loss of elements as the caller wants it: 0 as it is, 1 its mean, 2 its sum. Error for other numbers.
Tensor reduced(const Tensor& loss, int64_t reduction);
// The gradient of each element from that of the reduced loss of self and target.
Tensor spread(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction);
// The target in the form of self where they differ by dimensions of size 1 alone; else as it is, to be broadcast.
Tensor target_as(const Tensor& target, const Tensor& self);
// t * weight, if there is a weight.
Tensor weighted(const Tensor& t, const Tensor& weight);

// Of _smoothed_nll_loss: what each element of self counts, and the gradient as one call where a device has that
// (undefined elsewhere).
Tensor smoothed_shares(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                       double smoothing);
Tensor smoothed_loss_gradient(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                              int64_t reduction, int64_t ignore_index, double smoothing, const Tensor& total_weight);

}  // namespace tessera::kernels
