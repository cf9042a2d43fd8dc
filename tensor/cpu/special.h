// Elementwise functions that are not kernels of the elementwise engine: several results of different dtypes, or long computations. Contiguous data.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// x = mantissa 2^exponent with a mantissa in [0.5, 1); exponent 0 for zero, infinities and NaN. float16, bfloat16, float32, float64.
void run_frexp(DType dtype, int64_t n, void* mantissa, int32_t* exponent, const void* x);

// How a gamma number x moves with its concentration a while its place in the distribution stays: -(dF/da) / (dF/dx) of the distribution function F.
void run_gamma_gradient(int64_t n, double* out, const double* a, const double* x);

}  // namespace tessera::cpu
