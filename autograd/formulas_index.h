// Helpers for the formulas of tensor/ops/tables/index.textproto.
#pragma once

#include <vector>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// What a formula needs to know of a list of tensors without keeping them: `tensors.parts()`. Of each its rank, dtype,
// device's type and index, and sizes.
std::vector<SymInt> parts_of(TensorList tensors);
std::vector<Tensor> cat_tensors_backward(const Tensor& grad, SymIntList parts, int64_t dim);
Tensor gather_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index);
Tensor index_select_backward(const Tensor& grad, IntList sizes, int64_t dim, const Tensor& index);
// The gradient of a source whose slices were written (or added) at index along dim.
Tensor index_source_backward(const Tensor& grad, const Tensor& source, int64_t dim, const Tensor& index);
Tensor index_backward(const Tensor& grad, IntList sizes, const TensorOptions& options, TensorList indices);
Tensor masked_select_backward(const Tensor& grad, const Tensor& self, const Tensor& mask);
Tensor masked_scatter_backward(const Tensor& grad, const Tensor& mask, IntList sizes);

}  // namespace tessera::autograd::formulas
