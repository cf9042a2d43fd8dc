// Blocks on the diagonal of Schur forms, 1 x 1 or, of real matrices, 2 x 2.
#pragma once

#include <algorithm>

#include "linalg/cpu/columns.h"

namespace tessera::cpu::columns {

// A rotation (c, s; -s, c).
template <class R>
struct Turn {
  R c, s;
};
// The turn Q for which Q [a, b; c, d] Q^T is upper triangular, or has equal elements on the diagonal and others of
// different sign; the four become that. The eigenvalues go to w[0], w[1].
template <class R>
Turn<R> standardize(R& a, R& b, R& c, R& d, std::complex<R>* w);

// Whether h(k, k - 1) is as good as zero in the block [lo, hi): next to its neighbours on the diagonal, and, where
// these are graded, by what it changes of the eigenvalues of the 2 x 2 block around it (Ahues and Tisseur).
template <class T>
bool is_negligible(Matrix<T> h, int64_t k, int64_t lo, int64_t hi, Real<T> tiny) {
  using R = Real<T>;
  const R below = size_of(h(k, k - 1));
  if (below <= tiny) return true;
  R around = size_of(h(k - 1, k - 1)) + size_of(h(k, k));
  if (around == 0) {
    if (k - 2 >= lo) around += size_of(h(k - 1, k - 2));
    if (k + 1 < hi) around += size_of(h(k + 1, k));
  }
  if (!(below <= kEps<T> * around)) return false;
  const R above = size_of(h(k - 1, k)), ab = std::max(below, above), ba = std::min(below, above);
  const R d = size_of(h(k, k)), difference = size_of(h(k - 1, k - 1) - h(k, k));
  const R aa = std::max(d, difference), bb = std::min(d, difference), sum = aa + ab;
  return ba * (ab / sum) <= std::max(tiny, kEps<T> * (bb * (aa / sum)));
}

}  // namespace tessera::cpu::columns
