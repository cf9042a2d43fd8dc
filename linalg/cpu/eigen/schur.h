// The Schur form of matrices that have nothing below their first subdiagonal.
#pragma once

#include "linalg/cpu/columns.h"

namespace tessera::cpu::columns {

// H = U T U^H, T upper triangular; where T is real, with 2 x 2 blocks [a, b; c, a], b c < 0, on its diagonal for pairs
// of complex eigenvalues.
template <class T>
struct SchurProblem {
  int64_t n;
  int64_t lo, hi;  // outside of rows and columns [lo, hi) h is triangular already
  T* h;            // in columns; T comes in its place if `form` is wanted, else only what the eigenvalues need
  int64_t ld;
  bool form;
  T* z;  // z_rows x n in columns: becomes z U; or null
  int64_t z_rows, z_ld;
  std::complex<Real<T>>* w;  // the eigenvalues
};
// 0, or k: w[k] and those behind it were found, the others not.
template <class T>
int64_t schur(const SchurProblem<T>& p);

// Makes rows k, k + 1 of a real h a block as T has them, or two; their eigenvalues go to w[k], w[k + 1].
template <class T>
void standardize_block(const SchurProblem<T>& p, int64_t k);

}  // namespace tessera::cpu::columns
