// Eigenvectors of triangular matrices.
#pragma once

#include <complex>

#include "linalg/cpu/columns.h"

namespace tessera::cpu::columns {

// x: n x n in columns: the eigenvectors of t, which is a Schur form with eigenvalues w; each is zero below its
// eigenvalue's row, and its largest element is near 1. Real t: of a pair of complex ones, the real and the imaginary
// part of the first.
template <class T>
void triangular_eigenvectors(int64_t n, const T* t, int64_t ld, const std::complex<Real<T>>* w, T* x, int64_t x_ld);

}  // namespace tessera::cpu::columns
