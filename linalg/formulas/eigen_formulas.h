// Derivatives of the operators of tables/eigen.textproto.
#pragma once

#include <tuple>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// Error if the loss depends on the eigenvectors' phases.
Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values, const Tensor& vectors);
std::tuple<Tensor, Tensor> eig_tangents(const Tensor& A_t, const Tensor& values, const Tensor& vectors);

Tensor eigvals_backward(const Tensor& grad, const Tensor& A);
Tensor eigvals_tangent(const Tensor& A_t, const Tensor& A);

}  // namespace tessera::autograd::formulas
