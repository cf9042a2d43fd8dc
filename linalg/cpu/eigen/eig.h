// Eigenvalues and eigenvectors of general matrices, below the Tensor.
#pragma once

#include "linalg/cpu/matrix.h"
#include "tensor/core/dtype.h"

namespace tessera::cpu {

// A v_j = w_j v_j with |v_j| = 1, v_j's largest element real: for each of the a.count matrices of that dtype, of which
// nothing is written. w: n complex numbers for each matrix, one after the other; v: null, or as many matrices of
// complex numbers with the v_j in columns. Of real matrices complex numbers come in conjugate pairs, the one with a
// positive imaginary part first. info for each matrix: 0; -1 if an element is not finite, and k > 0 if the k-th
// eigenvalue was not found: w and v are then nan.
void run_eig(DType dtype, MatrixBatch a, void* w, const MatrixBatch* v, int32_t* info);

}  // namespace tessera::cpu
