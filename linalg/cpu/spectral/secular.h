// The secular equation, by which divide and conquer joins the eigenvalues (singular values) of two halves.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// 1 + sum_j weight[j] / (p_j - x) = 0 with p_j = d[j], or (`squared`) d[j]^2, ascending and apart, weight[j] > 0. There
// are n poles and one more after the last root, of weight 0. A root is not given as a number but by the pole nearest to
// it and by how far it is from there, so that its distance from each pole is known to the last digits.
struct Secular {
  int64_t n;
  bool squared;
  const double *d, *weight;  // n + 1 of each

  double apart(double a, double b) const { return squared ? (a - b) * (a + b) : a - b; }
};
struct SecularRoots {
  double *origin, *offset;  // root i is offset[i] from the pole of d = origin[i]
};

// Roots begin ... end: root i lies between the poles i and i + 1. False where that does not converge.
bool secular_roots(const Secular& s, int64_t begin, int64_t end, SecularRoots roots);
// The weights of which `roots` are the exact roots (Gu and Eisenstat), their square roots with the signs of z.
void secular_weights(const Secular& s, SecularRoots roots, const double* z, double* exact);
// Components z[j] / (p_j - x) of the vector to a root, and the vector's length. d: that of each component.
double secular_vector(int64_t n, bool squared, const double* d, const double* z, double origin, double offset,
                      double* vector);

}  // namespace tessera::cpu::internal
