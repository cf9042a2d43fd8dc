// Helpers for the formulas of tensor/ops/tables/view.textproto.
#pragma once

#include <vector>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

IntVector inverse_permutation(IntList dims);
Tensor as_strided_grad(const Tensor& grad, IntList base_size, IntList base_stride, int64_t base_offset, SymIntList size,
                       SymIntList stride, std::optional<SymInt> offset);
// The gradients of pieces put together; pieces without one count as zeros.
Tensor split_backward(TensorList grads, SymInt split_size, int64_t dim, IntList sizes, const TensorOptions& options);
Tensor split_with_sizes_backward(TensorList grads, SymIntList split_sizes, int64_t dim, IntList sizes,
                                 const TensorOptions& options);
Tensor unbind_backward(TensorList grads, int64_t dim, IntList sizes, const TensorOptions& options);

// The gradient of a conversion: in the dtype and on the device of what was converted.
Tensor gradient_as(const Tensor& grad, DType dtype, Device device);

}  // namespace tessera::autograd::formulas
