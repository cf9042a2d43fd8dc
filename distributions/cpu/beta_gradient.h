// How beta numbers move with a concentration.
#pragma once

#include <cstdint>

namespace tessera::cpu {

// out[i]: the derivative in a of the number x[i] of concentrations a[i] and b = total[i] - a[i], while its place in the
// distribution stays, over 1 - x[i]. enough: the relative error to stop at.
void beta_gradient(int64_t n, double* out, const double* x, const double* a, const double* total, double enough);

}  // namespace tessera::cpu
