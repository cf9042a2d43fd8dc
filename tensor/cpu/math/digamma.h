// The series of digamma, for hosts and devices.
#pragma once

#include <cmath>

namespace tessera::cpu::scalar {

// digamma(x) of x > 0: upward recurrence to x >= 10, then the asymptotic series (Abramowitz & Stegun 6.3.18).
constexpr double digamma_of_positive(double x) {
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  const double z = 1 / (x * x);
  // B(2k) / 2k
  const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double series = 0;
  for (int k = 6; k >= 0; --k) series = (series + c[k]) * z;
  if (x > 1e17) series = 0;
  return shift + std::log(x) - 0.5 / x - series;
}

}  // namespace tessera::cpu::scalar
