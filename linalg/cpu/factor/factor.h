// Factorizations of square (and for LU any) matrices, what solves and inverts by them, and triangular systems, below
// the Tensor. float32, float64, complex64, complex128; what is written (`a` of factorizations, `b` of solutions) has
// dense rows or is the transpose of such. Nan and inf give nan and inf. The same bits at any number of threads.
// All that write over matrices look at MatrixBatch::from.
#pragma once

#include <array>
#include <cstdint>

#include "linalg/cpu/matrix.h"

namespace tessera::cpu {

// P A = L U with partial pivoting, L (unit diagonal, below it) and U in the place of A. pivots: min(rows, cols) for
// each matrix, one after the other: row i was exchanged with row pivots[i], counted from 1, in this order. info, one
// for each matrix: 0, or the first i, counted from 1, with U(i, i) = 0.
void run_lu_factor(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info);

// What system a solution is of.
struct SystemForm {
  bool transposed = false;  // of A^T (with conj: A^H)
  bool conj = false;
};

// b = A^-1 b, where `lu` and `pivots` are what run_lu_factor made of A. lu may have a batch_stride of 0; pivots are
// there for each matrix of b.
void run_lu_solve(DType dtype, const MatrixBatch& lu, const int32_t* pivots, SystemForm form, const MatrixBatch& b);

// Both: LU of a, which is as that of run_lu_factor, and b = A^-1 b, as many matrices.
void run_solve(DType dtype, const MatrixBatch& a, int32_t* pivots, int32_t* info, const MatrixBatch& b);

// Each of: the determinants; their signs (numbers of absolute value 1, or 0) and the logarithms of their absolute
// values. Null: not wanted. One element a matrix, logabs in the real dtype.
struct DeterminantResult {
  void *value, *sign, *logabs;
};
void run_determinant(DType dtype, const MatrixBatch& lu, const int32_t* pivots, DeterminantResult to);

// to[i]: which row of A stands in row i of P A. `count` lists of `size` pivots make as many of `rows` numbers.
void run_unpack_pivots(const int32_t* pivots, int64_t count, int64_t size, int64_t rows, int64_t* to);

// a becomes its inverse; info as that of run_lu_factor: where it is not 0, a is left as anything.
void run_inverse(DType dtype, const MatrixBatch& a, int32_t* info);

// A = L L^H, L in the place of a, zeros above. A's lower triangle is read, and of its diagonal the real parts. upper:
// A = U^H U of the upper triangle, zeros below. info: 0, or the order of the first leading minor that is not positive
// definite; then the rest of a is anything.
void run_cholesky(DType dtype, const MatrixBatch& a, bool upper, int32_t* info);

// a, of whose lower (upper) triangle that factor is read, becomes (L L^H)^-1, or (U^H U)^-1: both halves of it.
void run_cholesky_inverse(DType dtype, const MatrixBatch& a, bool upper);

// b = (L L^H)^-1 b, or (U^H U)^-1 b, for such a factor, of any strides.
void run_cholesky_solve(DType dtype, const MatrixBatch& factor, bool upper, const MatrixBatch& b);

struct TriangularForm {
  bool upper;
  bool unit;  // the diagonal is not read, but taken as ones
  bool conj;  // of conj(A)
};
// The triangles that (L L^H)^-1 b, or (U^H U)^-1 b, is one after the other: the one that isn't the factor is its
// adjoint.
struct Triangle {
  MatrixBatch matrix;
  TriangularForm form;
};
inline std::array<Triangle, 2> triangles_of(DType dtype, const MatrixBatch& factor, bool upper) {
  const bool conj = is_complex(dtype);
  return {{{upper ? transposed(factor) : factor, {false, false, conj && upper}},
           {upper ? factor : transposed(factor), {true, false, conj && !upper}}}};
}

// b = A^-1 b for the triangle of A. A zero on the diagonal is divided by. a may have any strides.
void run_triangular_solve(DType dtype, const MatrixBatch& a, TriangularForm form, const MatrixBatch& b);

// A = L D L^T (hermitian: L D L^H) with D of blocks of 1 x 1 and 2 x 2, by Bunch's and Kaufman's pivoting, of A's lower
// triangle and in its place; the layout and the pivots are those of LAPACK's sytrf with a lower triangle: pivots[k] >
// 0: row and column k were exchanged with pivots[k], counted from 1; pivots[k] = pivots[k + 1] < 0: a block of 2 x 2,
// and k + 1 was exchanged with -pivots[k]. info: 0, or the first i with a zero block D(i, i).
void run_ldl_factor(DType dtype, const MatrixBatch& a, bool hermitian, int32_t* pivots, int32_t* info);
// b = A^-1 b of run_ldl_factor's results. pivots are there for each matrix of b.
void run_ldl_solve(DType dtype, const MatrixBatch& ld, const int32_t* pivots, bool hermitian, const MatrixBatch& b);

}  // namespace tessera::cpu
