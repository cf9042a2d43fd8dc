// Steps of the QR iteration: chains of small bulges that are chased down the diagonal together.
#pragma once

#include <vector>

#include "linalg/cpu/eigen/schur.h"

namespace tessera::cpu::columns {

// Two shifts of one bulge; of real matrices both real, or a pair.
template <class R>
struct Shifts {
  std::complex<R> first, second;
};

// One step of the block [lo, hi), of at least three rows, with all these pairs of shifts: the last columns of H^H's
// product with them. Elements outside of the block follow where p.form asks for it.
template <class T>
void sweep(const SchurProblem<T>& p, int64_t lo, int64_t hi, const std::vector<Shifts<Real<T>>>& shifts);

}  // namespace tessera::cpu::columns
