// Derivatives of eigenvalues and singular values, and of their vectors.
#pragma once

#include <tuple>

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// Gradients may be undefined. Error for complex numbers where what is differentiated depends on the phases of vectors.
Tensor linalg_eigh_backward(const Tensor& values_grad, const Tensor& vectors_grad, const Tensor& values,
                            const Tensor& vectors);
std::tuple<Tensor, Tensor> linalg_eigh_tangents(const Tensor& A_t, const Tensor& values, const Tensor& vectors);

Tensor linalg_svd_backward(const Tensor& U_grad, const Tensor& S_grad, const Tensor& Vh_grad, const Tensor& U,
                           const Tensor& S, const Tensor& Vh, bool full_matrices);
std::tuple<Tensor, Tensor, Tensor> linalg_svd_tangents(const Tensor& A_t, const Tensor& U, const Tensor& S,
                                                       const Tensor& Vh, bool full_matrices);

}  // namespace tessera::autograd::formulas
