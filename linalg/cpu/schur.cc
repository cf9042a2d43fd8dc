#include "linalg/cpu/schur.h"

#include "linalg/cpu/schur_small.h"

namespace tessera::cpu::columns {

template <class T>
int64_t schur(const SchurProblem<T>& p) {
  for (int64_t i = 0; i < p.n; ++i)
    if (i < p.lo || i >= p.hi) p.w[i] = p.h[i + i * p.ld];
  return small_schur(p);
}

template int64_t schur(const SchurProblem<float>&);
template int64_t schur(const SchurProblem<double>&);
template int64_t schur(const SchurProblem<std::complex<float>>&);
template int64_t schur(const SchurProblem<std::complex<double>>&);

}  // namespace tessera::cpu::columns
