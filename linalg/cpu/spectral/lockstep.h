// Many small matrices at once: each lane of the vectors holds a matrix of its own, and all go the same way. Element i
// of an array of lanes is `lanes` numbers, one for each matrix.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// How much room a kernel needs for matrices of m x n, in arrays of lanes.
inline int64_t lockstep_room(int64_t m, int64_t n) { return 4 * (m + n) + n * n + 8; }

// Elements near 1 or smaller; unused lanes hold zeros. All memory in arrays of lanes, 64-byte aligned. Results are bits
// of the lanes whose iterations did not converge.
template <class R>
struct LockstepKernels {
  // How many matrices go together.
  int64_t (*lanes)();
  // Eigenvalues d (n, unordered) of symmetric matrices: element (j, i), j >= i, is a[i * n + j]. v: null, or n x n,
  // whose rows become the eigenvectors. a is lost.
  uint32_t (*eigh)(R* a, int64_t n, R* d, R* v, R* room);
  // Singular values d (n, unordered, of any sign) of m x n matrices, m >= n: element (i, j) is a[j * m + i]. u: null,
  // or u_rows x m (n or m rows), whose rows become the left singular vectors; v: n x n, those of the right ones.
  uint32_t (*svd)(R* a, int64_t m, int64_t n, R* d, R* u, int64_t u_rows, R* v, R* room);
};

// For the SIMD level of this machine.
template <class R>
const LockstepKernels<R>& lockstep();

}  // namespace tessera::cpu::internal
