// Special functions that the C++ library lacks, for float (computed in double) and double.
#pragma once

#include "tensor/cpu/math/series.h"

namespace tessera::cpu::scalar {

double lgamma(double x);  // log |Gamma(x)|; thread-safe, unlike the C function that sets signgam
double digamma(double x);

float lgamma(float x);
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
inline float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }
inline float i0e(float x) { return static_cast<float>(i0e(static_cast<double>(x))); }

}  // namespace tessera::cpu::scalar
