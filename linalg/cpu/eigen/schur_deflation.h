// Aggressive early deflation (Braman, Byers and Mathias): the Schur form of the last rows and columns of a block tells
// which of their eigenvalues are found already, and what the others are good for.
#pragma once

#include "linalg/cpu/eigen/schur.h"

namespace tessera::cpu::columns {

// Splits off what is found among the last `size` eigenvalues of the block [lo, hi), size < hi - lo: their number is the
// result, or -1 where nothing was learnt. They are in p.w, and those that are left of `size` before them, as shifts.
template <class T>
int64_t deflate_early(const SchurProblem<T>& p, int64_t lo, int64_t hi, int64_t size, Real<T> tiny);

}  // namespace tessera::cpu::columns
