// Derivatives of functions of matrices.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// The derivative of exp at A in `direction`; adjoint: of its adjoint map, which takes gradients back.
Tensor matrix_exp_differential(const Tensor& A, const Tensor& direction, bool adjoint);

// Of the pseudoinverse P of A, whose rank does not change (G. Golub and V. Pereyra 1973):
// dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P.
Tensor pinv_backward(const Tensor& grad, const Tensor& P, const Tensor& A);
Tensor pinv_forward(const Tensor& dA, const Tensor& P, const Tensor& A);

}  // namespace tessera::autograd::formulas
