// Hermitian matrices by way of real tridiagonal ones.
#pragma once

#include <cstdint>

#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

// Q^H A Q = T for an n x n Hermitian matrix A, whose element (j, i), j >= i, is rows[i * ld + j] (others are not read,
// but lost); its elements are near 1 or smaller. Fast where rows begin at lines of the cache. d (n) and e (n - 1): the
// diagonals of T. Q = H_0 ... H_{n-2}, in rows as apply_reflectors takes them with a shift of 1, with tau (n - 1).
template <class T>
void reduce_to_tridiagonal(T* rows, int64_t ld, int64_t n, double* d, double* e, T* tau);

// The eigenvalues d of the symmetric tridiagonal matrix with diagonals d and e, in any order, by implicit QR. `rows`
// (n of them, `width` numbers each; or null) are multiplied by the transposed matrix of eigenvectors from the left: if
// they were the identity, row i becomes the eigenvector to d[i]. e is lost. False where that does not converge.
template <class R>
bool tridiagonal_qr(double* d, double* e, int64_t n, R* rows, int64_t stride, int64_t width);

// The same by divide and conquer (Cuppen 1981, Gu and Eisenstat 1995), for matrices with elements near 1 or smaller:
// ascending, rows (n of n numbers, `stride` apart) need not be set before.
template <class R>
bool tridiagonal_eigenvectors(double* d, double* e, int64_t n, R* rows, int64_t stride);
// The eigenvalues alone, ascending.
template <class R>
bool tridiagonal_values(double* d, double* e, int64_t n);

}  // namespace tessera::cpu::internal
