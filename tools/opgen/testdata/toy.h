// What the formulas of toy.textproto call.
#pragma once

#include <array>
#include <tuple>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/ops/pointwise.h"

namespace tessera {

namespace pw {
extern const PointwiseOp toy_plus, toy_times;
}

Tensor toy_minmax_backward(const Tensor& low_grad, const Tensor& high_grad, const Tensor& self, const Tensor& low,
                           const Tensor& high, IntList dim, IntList sizes);
Tensor toy_row_backward(const Tensor& grad, SymIntList sizes, int64_t index);
std::vector<Tensor> toy_unjoin(const Tensor& grad, int64_t count);
std::tuple<Tensor, Tensor, Tensor> toy_linear_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                       const std::array<bool, 3>& mask);
// The tangent of toy_linear; those of the inputs may be undefined.
Tensor toy_linear_tangent(const Tensor& input_t, const Tensor& weight_t, const Tensor& bias_t, const Tensor& input,
                          const Tensor& weight);

}  // namespace tessera
