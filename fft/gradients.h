// Derivatives of the transforms of real numbers.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// sizes: of what was transformed.
Tensor fft_r2c_backward(const Tensor& grad, IntList dim, int64_t normalization, bool onesided, SymIntList sizes);
Tensor fft_c2r_backward(const Tensor& grad, IntList dim, int64_t normalization);

}  // namespace tessera::autograd::formulas
