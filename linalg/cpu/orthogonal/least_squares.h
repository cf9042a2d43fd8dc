// Least squares by orthogonal factorizations, below the Tensor.
#pragma once

#include "linalg/cpu/matrix.h"
#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class LeastSquares : uint8_t {
  kFullRank,  // by Q R: A has full rank, which is not checked
  kPivoted,   // by Q R with pivots: singular values that seem smaller than rcond times the largest count as zero
};

// x that minimises |A x - b|, and |x| where there are many: for each column of b, which has max(rows, cols) rows.
// Given are the first `rows` of them; x stands in the first `cols` afterwards. Where rows > cols and A has full rank,
// the sum of the squares of the others is |A x - b|^2. A is read. rank: a number for each matrix, or null. failed: for
// kFullRank 1 + the place of a zero on R's diagonal, else 0.
void run_least_squares(DType dtype, LeastSquares method, double rcond, MatrixBatch a, MatrixBatch b, int64_t* rank,
                       int32_t* failed);

}  // namespace tessera::cpu
