// From a general matrix to one with nothing below its first subdiagonal.
#pragma once

#include "linalg/cpu/columns.h"

namespace tessera::cpu::columns {

// How a matrix was balanced: row and column i of [lo, hi) were multiplied by 1 / scale[i] and scale[i]; those outside
// had been swapped with scale[i]: hi .. n - 1 from the last on, then 0 .. lo - 1.
template <class R>
struct Balance {
  int64_t lo, hi;
  R* scale;
};

// Brings eigenvalues that can be read off to the ends (rows and columns outside of [lo, hi) are triangular then), and
// rows and columns of the rest to like norms, by powers of two. a: n x n in columns.
template <class T>
Balance<Real<T>> balance(int64_t n, T* a, int64_t ld, Real<T>* scale);
// The eigenvectors in the columns of v, n x count, of the matrix that was balanced.
template <class T>
void undo_balance(const Balance<Real<T>>& b, int64_t n, int64_t count, T* v, int64_t ld);

// a = Q H Q^H: H in its place. q (or null): n x n, becomes Q.
template <class T>
void reduce_to_hessenberg(int64_t n, int64_t lo, int64_t hi, T* a, int64_t ld, T* q, int64_t q_ld);

}  // namespace tessera::cpu::columns
