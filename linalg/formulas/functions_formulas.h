// Derivatives of functions of matrices.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// The derivative of exp at A in `direction`; adjoint: of its adjoint map, which takes gradients back.
Tensor matrix_exp_differential(const Tensor& A, const Tensor& direction, bool adjoint);

}  // namespace tessera::autograd::formulas
