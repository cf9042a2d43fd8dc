// Orthogonal factorizations of batches of matrices, below the Tensor. Reflections are those of LAPACK:
// Q = H_0 H_1 ... with H_i = I - tau_i v_i v_i^H, where v_i has zeros above row i, 1 there, and the rest below the
// diagonal of column i.
#pragma once

#include "linalg/cpu/matrix.h"
#include "tensor/core/dtype.h"

namespace tessera::cpu {

// A = Q R for each matrix: R's upper triangle and below it the v_i, in A's place; tau: min(rows, cols) numbers for each
// matrix, one after the other. R's diagonal is real. Looks at MatrixBatch::from.
void run_geqrf(DType dtype, MatrixBatch a, void* tau);

// A = Q R for each matrix, rows >= cols: Q, of A's shape, in A's place, and R, zeros below its diagonal. Looks at
// MatrixBatch::from.
void run_qr(DType dtype, MatrixBatch q, MatrixBatch r);

// The first q.cols columns of H_0 ... H_(reflections - 1), in the place of the v_i, which stand below q's diagonal.
// rows >= cols >= reflections; tau_stride: from matrix to matrix, in elements.
void run_householder_product(DType dtype, MatrixBatch q, const void* tau, int64_t reflections, int64_t tau_stride);

// c = Q c (left) or c Q, adjoint: of Q's conjugate transpose; Q is that of all reflections, of which v has the columns.
void run_apply_reflections(DType dtype, MatrixBatch v, const void* tau, int64_t reflections, int64_t tau_stride,
                           MatrixBatch c, bool left, bool adjoint);

// to = the upper triangles of the first to.rows rows of `from`, zeros below them; both may be the same memory.
void run_upper_triangle(DType dtype, MatrixBatch from, MatrixBatch to);

}  // namespace tessera::cpu
