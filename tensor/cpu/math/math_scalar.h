// Special functions that the C++ library lacks, for float (computed in double) and double.
#pragma once

namespace tessera::cpu::scalar {

double lgamma(double x);  // log |Gamma(x)|; thread-safe, unlike the C function that sets signgam
double digamma(double x);
double i0(double x);
double i0e(double x);             // e^-|x| i0(x)
double zeta(double s, double q);  // the Hurwitz zeta function; for q < 0 of integers s

float lgamma(float x);
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
inline float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }
inline float i0e(float x) { return static_cast<float>(i0e(static_cast<double>(x))); }

}  // namespace tessera::cpu::scalar
