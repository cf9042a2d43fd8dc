// The secular equation, by which divide and conquer joins the eigenvalues (singular values) of two halves.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// 1 + sum_j weight[j] / (p_j - x) = 0 with n poles p_j = d[j], or (`squared`) d[j]^2, ascending and apart, weight[j] >
// 0. A root is not given as a number but by the pole nearest to it and by how far it is from there, so that its
// distance from each pole is known to the last digits. So is the end of the interval of the last root: added to a pole
// that is much larger it would be that pole. The largest of the poles and weights is about 1 (see `normal_scale`), and
// poles are so far apart that deflation has left them: a product of four distances is neither 0 nor infinite.
struct Secular {
  int64_t n;
  bool squared;
  const double *d, *weight;
  double total;      // of the weights: the last root is at most so far from the last pole
  double precision;  // of the roots' distances from their poles, at least 8 times that of double

  double apart(double a, double b) const { return squared ? (a - b) * (a + b) : a - b; }
};
struct SecularRoots {
  double *origin, *offset;  // root i is offset[i] from the pole of d = origin[i]
};

// The power of two that brings `largest` between 1 and 2.
double normal_scale(double largest);
// The precision of roots for vectors of type R: what is below has no influence on a rounded vector.
template <class R>
constexpr double root_precision() {
  return sizeof(R) == sizeof(float) ? 1e-11 : 8 * 2.220446049250313e-16;
}

// Roots begin ... end: root i lies between the poles i and i + 1, the last one after the last pole. False where that
// does not converge.
bool secular_roots(const Secular& s, int64_t begin, int64_t end, SecularRoots roots);
// The weights of which `roots` are the exact roots (Gu and Eisenstat), their square roots with the signs of z.
void secular_weights(const Secular& s, SecularRoots roots, const double* z, double* exact);
// The vectors to roots: components z[j] / (p_j - x), brought to length 1. d: that of each component.
struct SecularVector {
  int64_t n;
  bool squared;
  const double *d, *z;
  int64_t minus_one;  // a component that is -1 before, where z is 0; or -1
  double* room;       // for n numbers
};
template <class R>
void secular_vector(const SecularVector& v, double origin, double offset, R* to);

}  // namespace tessera::cpu::internal
