// Matrices by way of real bidiagonal ones.
#pragma once

#include <cstdint>

#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

// Q^H A P = B, upper bidiagonal, for an m x n matrix A (m >= n) whose element (i, j) is columns[j * ld + i], near 1 or
// smaller; columns and ld whole lines of the cache, if it is to be fast. d (n), e (n - 1): the diagonals. Q = H_0 ...
// H_{n-1} comes into `columns` as apply_reflectors takes it with a shift of 0, P = G_0 ... G_{n-2} into `right` (n rows
// of n, right_ld apart) with a shift of 1.
template <class T>
void reduce_to_bidiagonal(T* columns, int64_t ld, int64_t m, int64_t n, double* d, double* e, T* tau_left, T* right,
                          int64_t right_ld, T* tau_right);

// The singular values d >= 0 of the n x (n + extra) upper bidiagonal matrix B with diagonals d and e (n - 1 + extra),
// in any order, by implicit QR (Golub and Kahan 1965, Demmel and Kahan 1990). B = U S V^T: `left` (n rows of `width`)
// and `right` (n + extra rows) are multiplied by U^T and V^T from the left (or are null). e is lost. False where that
// does not converge.
template <class R>
bool bidiagonal_qr(double* d, double* e, int64_t n, int64_t extra, R* left, int64_t left_stride, int64_t left_width,
                   R* right, int64_t right_stride, int64_t right_width);

// The same for a square matrix with elements near 1 or smaller by divide and conquer (Gu and Eisenstat 1995):
// descending; left and right (n rows of n numbers, left_stride and right_stride apart) need not be set before: their
// rows become the singular vectors.
template <class R>
bool bidiagonal_vectors(double* d, double* e, int64_t n, R* left, int64_t left_stride, R* right, int64_t right_stride);
// The singular values alone, descending.
template <class R>
bool bidiagonal_values(double* d, double* e, int64_t n);

}  // namespace tessera::cpu::internal
