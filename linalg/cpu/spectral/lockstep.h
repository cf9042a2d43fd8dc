// Many small matrices at once: each lane of the vectors holds a matrix of its own, and all go the same way. Element i
// of an array of lanes is `lanes` numbers, one for each matrix.
#pragma once

#include <cstdint>

#include "linalg/cpu/batches.h"

namespace tessera::cpu::internal {

// How far rows of n elements lie apart: rows a power of two apart would share lines of the cache.
inline int64_t lockstep_pitch(int64_t n) { return n < 32 ? n : n | 1; }
// How much room a kernel needs for matrices of m x n, in arrays of lanes.
inline int64_t lockstep_room(int64_t m, int64_t n) { return m + (n + 20) * n; }

// Elements near 1 or smaller. All memory in arrays of lanes, 64-byte aligned; rows of n elements lie lockstep_pitch(n)
// apart. Results are bits of the lanes whose iterations did not converge.
template <class R>
struct LockstepKernels {
  // How many matrices go together.
  int64_t (*lanes)();
  // rows x cols of `count` matrices to lanes, those of others are some of them; upper: what is below the diagonal is
  // not looked at. Each is multiplied by scales[lane], a power of two that brings its elements near 1; 0 if one of them
  // is not finite.
  void (*load)(int64_t count, int64_t rows, int64_t cols, numbers::Group<const R> from, bool upper, R* to, R* scales);
  // And back, without a scale.
  void (*store)(int64_t count, int64_t rows, int64_t cols, R* from, numbers::Group<R> to);
  // Eigenvalues d (n, unordered) of symmetric matrices: element (j, i), j >= i, is (i, j) of a. v: null, or n x n,
  // whose rows become the eigenvectors. a is lost.
  uint32_t (*eigh)(R* a, int64_t n, R* d, R* v, R* room);
  // Singular values d (n, unordered, of any sign) of m x n matrices, m >= n: element (i, j) is (j, i) of a. u: null,
  // or u_rows x m (n or m rows), whose rows become the left singular vectors; v: n x n, those of the right ones.
  uint32_t (*svd)(R* a, int64_t m, int64_t n, R* d, R* u, int64_t u_rows, R* v, R* room);
};

// For the SIMD level of this machine.
template <class R>
const LockstepKernels<R>& lockstep();

}  // namespace tessera::cpu::internal
