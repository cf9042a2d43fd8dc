// Eigenvalues of many small real matrices at once, one in each lane of vectors. Arrays of lanes: element i is `lanes`
// numbers, one for each matrix.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// Sizes for matrices of n x n, in arrays of lanes: the matrix with a row and a column of zeros behind it, the vectors,
// and other room.
inline int64_t lockstep_eig_matrix(int64_t n) { return (n + 1) * (n + 1); }
inline int64_t lockstep_eig_room(int64_t n, bool vectors) { return 8 * (n + 2) + (vectors ? n * (n + 1) : 0); }

template <class R>
struct LockstepEigKernels {
  // How many matrices go together.
  int64_t (*lanes)();
  // Element (i, j) is a[i * (n + 1) + j], near 1 or smaller; unused lanes hold zeros. a is lost. w: the real parts of
  // the n eigenvalues, then the imaginary ones; of a pair the one with the positive part first. v: null, or 2 n n: the
  // real parts of eigenvector j from 2 j n on, the imaginary ones behind them; of norm 1, the largest element of
  // complex ones is real. All memory is 64-byte aligned. Results are bits of the lanes whose matrices need another way.
  uint32_t (*eig)(R* a, int64_t n, R* w, R* v, R* room);
};

// For the SIMD level of this machine.
template <class R>
const LockstepEigKernels<R>& lockstep_eig();

}  // namespace tessera::cpu::internal
