// Derivatives that need more than a line.
#pragma once

#include "autograd/formulas.h"
#include "special/special.h"

namespace tessera::autograd::formulas {

Tensor i1e_backward(const Tensor& grad, const Tensor& self, const Tensor& result);

}  // namespace tessera::autograd::formulas
