// Many small matrices at once: each lane of the vectors holds a matrix of its own, and all go the same way. Element i
// of an array of lanes is `lanes` numbers, one for each matrix.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// How many matrices go together.
int64_t lockstep_lanes(float);
int64_t lockstep_lanes(double);

// Elements near 1 or smaller; unused lanes hold zeros. All memory in arrays of lanes, 64-byte aligned; `room` is for
// lockstep_room(m, n) of them. Results are bits of the lanes whose iterations did not converge.
inline int64_t lockstep_room(int64_t m, int64_t n) { return 4 * (m + n) + n * n + 8; }

// Eigenvalues d (n, unordered) of symmetric matrices: element (j, i), j >= i, is a[i * n + j]. v: null, or n x n, whose
// rows become the eigenvectors. a is lost.
uint32_t lockstep_eigh(float* a, int64_t n, float* d, float* v, float* room);
uint32_t lockstep_eigh(double* a, int64_t n, double* d, double* v, double* room);

// Singular values d (n, unordered, of any sign) of m x n matrices, m >= n: element (i, j) is a[j * m + i]. u: null, or
// u_rows x m (n or m rows), whose rows become the left singular vectors; vh: n x n, those of the right ones.
uint32_t lockstep_svd(float* a, int64_t m, int64_t n, float* d, float* u, int64_t u_rows, float* v, float* room);
uint32_t lockstep_svd(double* a, int64_t m, int64_t n, double* d, double* u, int64_t u_rows, double* v, double* room);

}  // namespace tessera::cpu::internal
