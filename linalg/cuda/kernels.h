// What the libraries leave to do around their calls. dtype is that of the matrices; those written share no element.
#pragma once

#include <cstdint>

#include "linalg/cuda/columns.h"

namespace tessera::cuda {

// Pivots in the integers of either library.
void widen_pivots(const int32_t* from, int64_t n, int64_t* to);
void narrow_pivots(const int64_t* from, int64_t n, int32_t* to);

// Zeros outside of the upper (or lower) triangle.
void keep_triangle(DType dtype, const MatrixBatch& m, bool upper);
void set_identity(DType dtype, const MatrixBatch& m);
void set_zero(DType dtype, const MatrixBatch& m);
// Imaginary parts of the diagonal become 0.
void make_diagonal_real(DType dtype, const MatrixBatch& m);
// found[b]: 1 + the place of the first zero on the diagonal, or 0.
void find_zero_on_diagonal(DType dtype, const MatrixBatch& m, int32_t* found);

enum class Part : uint8_t { kAll, kLower, kUpper };
// bad[b]: -1 where an element of that part is not finite, and the matrix becomes the identity; else 0.
void replace_not_finite(DType dtype, const MatrixBatch& m, Part part, int32_t* bad);
// info[b] = bad[b] where that is not 0.
void merge_infos(const int32_t* bad, int64_t count, int32_t* info);

// c = Q c, or (right) c Q, as run_apply_reflections; v and c may have any strides.
void multiply_small_q(DType dtype, const MatrixBatch& v, const void* tau, int64_t tau_stride, int64_t reflections,
                      const MatrixBatch& c, bool left, bool adjoint);

// The eigenvectors of real matrices (dtype), which `pairs` has as LAPACK's geev gives them: a column for each real
// eigenvalue, and two for a pair of complex ones, the real and the imaginary part of the first of them. w: n complex
// numbers for each matrix.
void unpack_eigenvectors(DType dtype, const Columns& pairs, const void* w, const MatrixBatch& to);
// w and (null: none) v of each matrix whose info is not 0 become nan; both are complex, w of n numbers each.
void spoil_failed(DType dtype, const int32_t* info, int64_t count, int64_t n, void* w, const MatrixBatch* v);

}  // namespace tessera::cuda
