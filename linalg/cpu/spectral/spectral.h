// Eigenvalues of Hermitian matrices and singular values, below the Tensor.
#pragma once

#include <cstdint>

#include "linalg/cpu/matrix.h"

namespace tessera::cpu {

// Every engine here: the matrices are only read, and may have any strides; what is written shares no memory with them.
// Nothing is written but `info` (one number for each matrix: 0, or why there is no result) where one of them has an
// element that is not finite: its info is -1. A positive info: the algorithm did not converge, which no finite matrix
// is known to bring about. The same bits at any number of threads.

// Hermitian matrices, of which the lower (or upper) triangle is read. values: ascending, n reals for each matrix.
// vectors: n x n, the eigenvectors in columns; or null.
void run_eigh(DType dtype, const MatrixBatch& a, bool lower, void* values, const MatrixBatch* vectors, int32_t* info);

// A = U diag(S) Vh with min(m, n) singular values for each matrix, descending. u: m x min(m, n) or m x m, vh:
// min(m, n) x n or n x n, each by itself; or both null.
void run_svd(DType dtype, const MatrixBatch& a, const MatrixBatch* u, void* values, const MatrixBatch* vh,
             int32_t* info);

}  // namespace tessera::cpu
