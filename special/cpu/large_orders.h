// Orthogonal polynomials of one number and large orders, for hosts and devices.
#pragma once

#include <cmath>
#include <limits>

namespace tessera::cpu {

enum class Family { kT, kU, kV, kW, kH, kHe, kL, kP };
constexpr bool is_chebyshev(Family f) { return f <= Family::kW; }

// Orders above these take a closed or an asymptotic form instead of the recurrence, whose time grows with the order.
// Hermite polynomials of such orders are beyond the range of double.
constexpr double kLongRecurrence = 65536, kLongChebyshev = 64;

// By angles (NIST DLMF 18.5.1 to 18.5.4); outside of [-1, 1] these are imaginary, and below -1 there is the symmetry of
// 18.6.1 (that of V and W exchanges them).
constexpr double chebyshev_of_order(Family family, double x, double n) {
  if (x != x) return x;
  const bool outside = std::fabs(x) > 1, odd = std::fmod(n, 2) != 0;
  double sign = 1;
  if (x < 0) {
    sign = odd ? -1 : 1;
    x = -x;
    if (family == Family::kV || family == Family::kW) family = family == Family::kV ? Family::kW : Family::kV;
  }
  const double angle = outside ? std::acosh(x) : std::acos(x);
  const auto sine = [&](double v) { return outside ? std::sinh(v) : std::sin(v); };
  const auto cosine = [&](double v) { return outside ? std::cosh(v) : std::cos(v); };
  if (x == 1) return sign * (family == Family::kU ? n + 1 : family == Family::kW ? 2 * n + 1 : 1);
  switch (family) {
    case Family::kT:
      return sign * cosine(n * angle);
    case Family::kU:
      return sign * (sine((n + 1) * angle) / sine(angle));
    case Family::kV:
      return sign * (cosine((n + 0.5) * angle) / cosine(angle / 2));
    default:
      return sign * (sine((n + 0.5) * angle) / sine(angle / 2));
  }
}

// By J0 and I0. The leading term of the uniform expansion in Bessel functions, DLMF 18.15.19 in its simplest form.
template <class J0, class I0>
constexpr double laguerre_of_order(double x, double n, J0 bessel_j0, I0 bessel_i0) {
  if (x != x || x > 1400) return std::numeric_limits<double>::quiet_NaN();  // where the recurrence overflows
  const double argument = std::sqrt((4 * n + 2) * std::fabs(x));
  if (x >= 0) return std::exp(x / 2) * bessel_j0(argument);
  return argument > 700 ? std::numeric_limits<double>::infinity() : std::exp(x / 2) * bessel_i0(argument);
}

// Hilb's formula with its error of n^(-3/2) (G. Szego, Orthogonal Polynomials, 8.21).
template <class J0>
constexpr double legendre_of_order(double x, double n, J0 bessel_j0) {
  const double a = std::fabs(x), sign = x < 0 && std::fmod(n, 2) != 0 ? -1 : 1;
  if (!(a <= 1)) return a > 1 ? sign * std::numeric_limits<double>::infinity() : x;
  if (a == 1) return sign;
  const double angle = std::acos(a);
  return sign * std::sqrt(angle / std::sin(angle)) * bessel_j0((n + 0.5) * angle);
}

}  // namespace tessera::cpu
