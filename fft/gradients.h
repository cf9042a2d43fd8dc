// Derivatives of the transforms of real numbers.
#pragma once

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// n: size of what was transformed, along the last of dim.
Tensor fft_r2c_backward(const Tensor& grad, IntList dim, int64_t normalization, bool onesided, const SymInt& n);
Tensor fft_c2r_backward(const Tensor& grad, IntList dim, int64_t normalization);

}  // namespace tessera::autograd::formulas
