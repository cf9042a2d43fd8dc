// The gradient of gather, which may be sparse.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

Tensor gather_gradient(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad);

}  // namespace tessera::autograd::formulas
