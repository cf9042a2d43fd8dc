// Derivatives of losses that are longer than a line. `both` is the product of a gradient and the gradient of its
// gradient.
#pragma once

#include "nn/loss_extra.h"
#include "nn/nn_ops.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// both * slope where |self - target| is less than bound, else 0.
Tensor within(const Tensor& both, const Tensor& self, const Tensor& target, double bound, double slope);

// x (1 - x), and not 0: what binary cross entropy's derivatives divide by.
Tensor bce_variance(const Tensor& x);
Tensor bce_second(const Tensor& both, const Tensor& self, const Tensor& target);
Tensor binary_cross_entropy_target_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                            const Tensor& weight, int64_t reduction);
Tensor bce_with_logits_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                                const Tensor& pos_weight, int64_t reduction);
Tensor bce_with_logits_target_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                       const Tensor& weight, const Tensor& pos_weight, int64_t reduction);
Tensor smoothed_nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                             int64_t reduction, SymInt ignore_index, double smoothing, const Tensor& total_weight);

}  // namespace tessera::autograd::formulas
