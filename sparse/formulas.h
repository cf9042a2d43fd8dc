// Derivatives of sparse operators: written with operators.
#pragma once

#include <span>

#include "autograd/formulas.h"
#include "sparse/all_ops.h"

namespace tessera::autograd::formulas {

// The gradient of the values of a COO tensor of these indices, from that of the tensor.
Tensor coo_values_gradient(const Tensor& grad, const Tensor& indices, IntList values);
// The values of grad at the elements of `pattern`.
Tensor values_at(const Tensor& grad, const Tensor& pattern);
// The elements of a sparse tensor, with other values.
Tensor with_values(const Tensor& pattern, const Tensor& values);
Tensor in_layout_of(const Tensor& grad, const Tensor& like);
Tensor to_dense_gradient(const Tensor& grad, const Tensor& self, bool masked);
Tensor sparse_mask_gradient(const Tensor& grad, const Tensor& self, const Tensor& mask);
// Of a product of a sparse and a dense matrix.
Tensor factor_gradient(const Tensor& grad, const Tensor& mat1, const Tensor& mat2, bool second);
// Of a product of two sparse matrices.
Tensor product_pattern_gradient(const Tensor& grad, const Tensor& a, const Tensor& b, bool second);
std::tuple<Tensor, Tensor> mm_reduce_gradient(const Tensor& grad, const Tensor& self, const Tensor& other,
                                              std::string_view reduce, const Tensor& chosen);
Tensor sparse_sum_gradient(const Tensor& grad, const Tensor& self, IntList dims);
Tensor softmax_gradient(const Tensor& grad, const Tensor& result, int64_t dim, bool log);

}  // namespace tessera::autograd::formulas
