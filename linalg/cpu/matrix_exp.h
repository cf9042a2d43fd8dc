// Exponentials of matrices, below the Tensor.
#pragma once

#include "linalg/cpu/matrix.h"

namespace tessera::cpu {

// Each square matrix of `matrices` becomes its exponential, in its place. dtype: float32, float64, complex64 or
// complex128. A matrix that has an element that is not finite becomes nan (one of 1 x 1: the exponential of its
// number).
void run_matrix_exp(DType dtype, const MatrixBatch& matrices);

}  // namespace tessera::cpu
