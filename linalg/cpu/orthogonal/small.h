// Q R of small matrices, as many at once as vectors have lanes. Scratch of a thread is theirs.
#pragma once

#include "linalg/cpu/batches.h"

namespace tessera::cpu::orthogonal {

template <class T>
struct SmallKernels {
  // How many matrices go together; `count` is at most that.
  int64_t (*lanes)();
  // Each of m x n, `from`, to a as run_geqrf's, min(m, n) numbers tau for each, one after the other.
  void (*qr)(int64_t count, int64_t m, int64_t n, const numbers::Group<const T>& from, const numbers::Group<T>& a,
             T* tau);
  // run_householder_product's: m x n in the place of q; from matrix to matrix tau_step numbers tau.
  void (*product)(int64_t count, int64_t m, int64_t n, int64_t reflections, const T* tau, int64_t tau_step,
                  const numbers::Group<T>& q);
  // Q and R, zeros below its diagonal, of m x n, m >= n: q is m x n, r n x n.
  void (*factors)(int64_t count, int64_t m, int64_t n, const numbers::Group<const T>& from, const numbers::Group<T>& q,
                  const numbers::Group<T>& r);
};

template <class R>
struct SmallLeastSquares {
  // b = A^+ b of run_least_squares for m x n, m >= n, and `width` columns of b, which has m rows. any_rank: those whose
  // condition number is far below 1 / rcond. Bits of the matrices that it is done for; b of others is left alone.
  uint32_t (*solve)(int64_t count, int64_t m, int64_t n, int64_t width, const numbers::Group<const R>& a,
                    const numbers::Group<R>& b, bool any_rank, R rcond);
};

// For the SIMD level of this machine.
template <class R>
const SmallLeastSquares<R>& small_least_squares();
template <class T>
const SmallKernels<T>& small_kernels();

}  // namespace tessera::cpu::orthogonal
