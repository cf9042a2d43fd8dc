// Helpers for the formulas of tensor/ops/tables/reduce.textproto.
#pragma once

#include <array>
#include <optional>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

using OptionalDims = std::optional<IntList>;

// The gradient of a reduction with its reduced dimensions (size 1) back in place.
Tensor unsqueeze_dims(const Tensor& grad, OptionalDims dims, int64_t input_dim, bool keepdim);
Tensor sum_backward(const Tensor& grad, IntList sizes, OptionalDims dims, bool keepdim);
Tensor mean_backward(const Tensor& grad, IntList sizes, OptionalDims dims, bool keepdim);
Tensor prod_backward(const Tensor& grad, const Tensor& self, const Tensor& result);
Tensor prod_dim_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim, bool keepdim);
// Shared among equals.
Tensor evenly_distribute(const Tensor& grad, const Tensor& self, const Tensor& value);
Tensor extremes_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dims, bool keepdim);
Tensor aminmax_backward(const Tensor& grad_min, const Tensor& grad_max, const Tensor& self, const Tensor& min,
                        const Tensor& max, std::optional<int64_t> dim, bool keepdim);
// Gradients go to where the values were taken from.
Tensor value_selecting_backward(const Tensor& grad, int64_t dim, const Tensor& indices, IntList sizes, bool keepdim);
Tensor var_backward(const Tensor& grad, const Tensor& self, OptionalDims dims, const std::optional<Scalar>& correction,
                    bool keepdim);
Tensor std_backward(const Tensor& result, const Tensor& grad, const Tensor& self, OptionalDims dims,
                    const std::optional<Scalar>& correction, bool keepdim);
Tensor var_mean_backward(const Tensor& grad_var, const Tensor& grad_mean, const Tensor& self, OptionalDims dims,
                         const std::optional<Scalar>& correction, bool keepdim);
Tensor std_mean_backward(const Tensor& grad_std, const Tensor& grad_mean, const Tensor& std, const Tensor& self,
                         OptionalDims dims, const std::optional<Scalar>& correction, bool keepdim);
Tensor logsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, IntList dims, bool keepdim);
Tensor vector_norm_backward(const Tensor& grad, const Tensor& self, const Scalar& ord, const Tensor& norm,
                            OptionalDims dims, bool keepdim);
// Forward mode. weights: the gradient of self for ones as the gradient of the result; gives the sum over the reduced
// dimensions (of all without dims) of tangent times conjugate weights.
Tensor reduced_tangent(const Tensor& tangent, const Tensor& weights, OptionalDims dims = std::nullopt,
                       bool keepdim = false);
Tensor reduced_tangent(const Tensor& tangent, const Tensor& weights, int64_t dim, bool keepdim);
Tensor value_selecting_tangent(const Tensor& tangent, int64_t dim, const Tensor& indices, bool keepdim);
std::array<Tensor, 2> aminmax_tangent(const Tensor& tangent, const Tensor& self, const Tensor& min, const Tensor& max,
                                      std::optional<int64_t> dim, bool keepdim);
Tensor cumsum_backward(const Tensor& grad, int64_t dim);
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& result);
Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim);
Tensor logcumsumexp_tangent(const Tensor& tangent, const Tensor& self, const Tensor& result, int64_t dim);
Tensor cumextreme_backward(const Tensor& grad, const Tensor& self, const Tensor& indices, int64_t dim);
Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim);
Tensor log_softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output, int64_t dim);

}  // namespace tessera::autograd::formulas
