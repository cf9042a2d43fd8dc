// Functions that neither C++ nor CUDA offers as the elementwise operators document them: special functions, and
// functions of complex numbers. For device code; they run on the host too.
//
// Complex functions are in double (complex64 goes through it, by in_double()): the ones of cuda::std overflow and
// cancel. Their values at zeros, infinities and nan are those of C's Annex G.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "tensor/cpu/math/digamma.h"
#include "tensor/cpu/math/series.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda::math {

template <class T = double>
__host__ __device__ constexpr T infinity() {
  return std::numeric_limits<T>::infinity();
}
template <class T = double>
__host__ __device__ constexpr T nan() {
  return std::numeric_limits<T>::quiet_NaN();
}
inline constexpr double kPi = std::numbers::pi;

template <class T>
__host__ __device__ inline bool is_nan(T x) {
  return x != x;
}
template <class T>
__host__ __device__ inline bool is_inf(T x) {
  return std::abs(x) == infinity<T>();
}
template <class T>
__host__ __device__ inline bool is_finite(T x) {
  return std::abs(x) < infinity<T>();
}  // not nan

// The larger and the smaller one; nan if x is.
template <class T>
__host__ __device__ inline T at_least(T x, T low) {
  return x < low ? low : x;
}
template <class T>
__host__ __device__ inline T at_most(T x, T high) {
  return x > high ? high : x;
}

// ---- Real functions ----

// The upper tail of the standard normal distribution at |x|.
__host__ __device__ inline double normal_tail(double x) {
#ifdef __CUDA_ARCH__
  return ::normcdf(-std::abs(x));
#else
  return 0.5 * std::erfc(std::abs(x) * (std::numbers::sqrt2 / 2));
#endif
}
__host__ __device__ inline float normal_tail(float x) {
#ifdef __CUDA_ARCH__
  return ::normcdff(-std::abs(x));
#else
  return static_cast<float>(normal_tail(static_cast<double>(x)));
#endif
}

// log |Gamma(x)|. On the host by the functions that do not set signgam.
__host__ __device__ inline double lgamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign;
  return is_inf(x) ? infinity() : ::lgamma_r(x, &sign);
#endif
}
__host__ __device__ inline float lgamma(float x) {
#ifdef __CUDA_ARCH__
  return ::lgammaf(x);
#else
  int sign;
  return is_inf(x) ? infinity<float>() : ::lgammaf_r(x, &sign);
#endif
}

// The inverse of erf: nan outside of [-1, 1]. Where there is no such function: a first guess by Giles' formula
// ("Approximating the erfinv function", 2010), then two Halley steps on erf, or on erfc in the tails.
__host__ __device__ inline double erfinv(double y) {
#ifdef __CUDA_ARCH__
  return ::erfinv(y);
#else
  if (!(std::abs(y) <= 1)) return nan();
  if (std::abs(y) == 1) return std::copysign(infinity(), y);
  double w = -std::log((1 - y) * (1 + y)), x;
  if (w < 5) {
    w -= 2.5;
    const double c[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                        -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    x = c[0];
    for (int i = 1; i < 9; ++i) x = x * w + c[i];
  } else {
    w = std::sqrt(w) - 3;
    const double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                        -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    x = c[0];
    for (int i = 1; i < 9; ++i) x = x * w + c[i];
  }
  x *= y;
  const double rest = 1 - std::abs(y);  // exact for |y| >= 1/2
  for (int i = 0; i < 2; ++i) {
    const double a = std::abs(x);
    const double error = std::abs(y) < 0.5 ? std::erf(a) - std::abs(y) : rest - std::erfc(a);
    const double step = error / (2 * std::numbers::inv_sqrtpi * std::exp(-a * a));
    x = std::copysign(a - step / (1 + a * step), y);
  }
  return x;
#endif
}
__host__ __device__ inline float erfinv(float y) {
#ifdef __CUDA_ARCH__
  return ::erfinvf(y);
#else
  return static_cast<float>(erfinv(static_cast<double>(y)));
#endif
}

// The modified Bessel function of the first kind, order 0; nan at the infinities. Where there is no such function: the
// power series for small arguments, the asymptotic expansion for large ones (Abramowitz & Stegun 9.6.12 and 9.7.1).
__host__ __device__ inline double i0(double x) {
  const double a = std::abs(x);
  if (!(a < infinity())) return nan();
#ifdef __CUDA_ARCH__
  return ::cyl_bessel_i0(a);
#else
  return cpu::scalar::i0(a);
#endif
}
__host__ __device__ inline float i0(float x) {
#ifdef __CUDA_ARCH__
  return is_finite(x) ? ::cyl_bessel_i0f(x) : nan<float>();
#else
  return static_cast<float>(i0(static_cast<double>(x)));
#endif
}

// Order 1, likewise.
__host__ __device__ inline double i1(double x) {
  const double a = std::abs(x);
  if (!(a < infinity())) return nan();
#ifdef __CUDA_ARCH__
  return ::cyl_bessel_i1(x);
#else
  double term = 1, sum = 1;
  if (a < 30) {
    const double q = a * a / 4;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) {
      term *= q / (static_cast<double>(k) * (k + 1));
      sum += term;
    }
    return sum * x / 2;
  }
  if (a > 800) return std::copysign(infinity(), x);
  for (int k = 1; k < 30; ++k) {
    const double next = term * ((2 * k - 1) * (2 * k - 1) - 4) / (8 * a * k);
    if (std::abs(next) >= std::abs(term) || std::abs(next) < sum * 1e-17) break;
    term = next;
    sum += term;
  }
  return std::copysign(sum / std::sqrt(2 * kPi * a) * std::exp(a / 2) * std::exp(a / 2), x);
#endif
}
__host__ __device__ inline float i1(float x) {
#ifdef __CUDA_ARCH__
  return is_finite(x) ? ::cyl_bessel_i1f(x) : nan<float>();
#else
  return static_cast<float>(i1(static_cast<double>(x)));
#endif
}

// Reflection (Abramowitz & Stegun 6.3.7) for negative x.
__host__ __device__ inline double digamma(double x) {
  if (x == 0) return std::copysign(infinity(), -x);
  if (is_nan(x) || x == -infinity()) return nan();
  if (x > 0) return cpu::scalar::digamma_of_positive(x);
  const double fraction = x - std::nearbyint(x);  // to the nearest pole, exactly
  if (fraction == 0) return nan();
  return cpu::scalar::digamma_of_positive(1 - x) + -kPi / std::tan(kPi * fraction);
}
__host__ __device__ inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

// The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! zeta(n + 1, x). Below 0 the sum has two ends, each a zeta
// function of a positive argument; the poles are infinite.
__host__ __device__ inline double polygamma(double n, double x) {
  if (is_nan(x)) return x;
  const double s = n + 1;
  const bool even = std::fmod(n, 2.0) == 0;
  const double whole = std::floor(x), rest = x - whole;
  if (is_inf(x)) return x > 0 ? 0 : nan();
  if (x <= 0 && rest == 0) return even ? -infinity() : infinity();
  double sum = cpu::scalar::zeta_positive(s, x > 0 ? x : rest);
  if (x < 0) {
    const double mirrored = cpu::scalar::zeta_positive(s, 1 - rest) - cpu::scalar::zeta_positive(s, 1 - rest - whole);
    sum += even ? -mirrored : mirrored;
  }
  return (even ? -1 : 1) * std::tgamma(s) * sum;
}

// tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2); 1 beyond 20 (or 40).
template <class T>
__host__ __device__ inline T tanh_softplus(T x) {
  const T e = std::exp(at_most(x, T(sizeof(T) == 4 ? 20 : 40))), w = e * (e + 2);
  return w / (w + 2);
}

template <class T>
__host__ __device__ inline T logistic(T x) {
  return 1 / (1 + std::exp(-x));
}

// ---- Complex numbers ----

// Products and quotients by the plain formulas (no recovery of infinities as in C99's Annex G), quotients scaled as by
// Smith (1962).
template <class R>
__host__ __device__ inline Complex<R> mul(Complex<R> a, Complex<R> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class R>
__host__ __device__ inline Complex<R> div(Complex<R> x, Complex<R> y) {
  const R a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  const R abs_c = std::abs(c), abs_d = std::abs(d);
  if (abs_c >= abs_d) {
    if (abs_c == 0 && abs_d == 0) return {a / abs_c, b / abs_d};
    const R ratio = d / c, scale = R(1) / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const R ratio = c / d, scale = R(1) / (d + c * ratio);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}
template <class R>
__host__ __device__ inline Complex<R> conj(Complex<R> z) {
  return {z.real(), -z.imag()};
}

using Z = Complex<double>;

// f(z) rounded to the type of z.
template <class R, class F>
__host__ __device__ inline Complex<R> in_double(Complex<R> z, F f) {
  const Z r = f(Z(z.real(), z.imag()));
  return {static_cast<R>(r.real()), static_cast<R>(r.imag())};
}

// Parts exchanged: f(z) = swap(g(swap(z))) is how a circular function f follows from its hyperbolic one.
__host__ __device__ inline Z swap(Z z) { return {z.imag(), z.real()}; }

inline constexpr double kExp700 = 1.0142320547350045e304;
// e^x (c + i s), which may be finite where e^x is not.
__host__ __device__ inline Z scaled_exp(double x, double c, double s) {
  for (int i = 0; i < 2 && x > 700; ++i) {
    x -= 700;
    c *= kExp700;
    s *= kExp700;
  }
  const double e = std::exp(x);
  return {e * c, e * s};
}

__host__ __device__ inline Z exp(Z z) {
  const double x = z.real(), y = z.imag();
  if (y == 0) return {std::exp(x), y};
  if (x == -infinity() && !is_finite(y)) return {0, std::copysign(0.0, y)};
  if (x == infinity() && !is_finite(y)) return {x, nan()};
  return scaled_exp(x, std::cos(y), std::sin(y));
}

__host__ __device__ inline Z exp2(Z z) { return exp(Z(z.real() * std::numbers::ln2, z.imag() * std::numbers::ln2)); }
// 1 + e^-z and the logistic function, which is 1 / that.
template <class R>
__host__ __device__ inline Complex<R> one_plus_exp_of_minus(Complex<R> z) {
  const Complex<R> e = in_double(Complex<R>(-z.real(), -z.imag()), [](Z x) { return exp(x); });
  return {1 + e.real(), e.imag()};
}
template <class R>
__host__ __device__ inline Complex<R> logistic(Complex<R> z) {
  return div(Complex<R>(1), one_plus_exp_of_minus(z));
}

// (e^a - 1) cos b + (cos b - 1) + i e^a sin b, with cos b - 1 = -2 sin^2(b / 2)
__host__ __device__ inline Z expm1(Z z) {
  const double a = z.real(), b = z.imag();
  if (a == -infinity()) return {-1, 0};
  const Z e = exp(z);
  const double h = std::sin(b / 2);
  return {is_inf(a) ? e.real() : std::expm1(a) * std::cos(b) - 2 * h * h, e.imag()};
}

// log |z|: near 1 by log1p of |z|^2 - 1, whose products are taken with their rounding errors.
__host__ __device__ inline double log_abs(Z z) {
  const double x = std::abs(z.real()), y = std::abs(z.imag()), m = x > y ? x : y, n = x > y ? y : x;
  if (m > 0.5 && m < 1.5 && n <= m) {
    const double mm = m * m, nn = n * n;
    return 0.5 * std::log1p(((mm - 1) + nn) + (std::fma(m, m, -mm) + std::fma(n, n, -nn)));
  }
  if (m > 1e300 && m < infinity()) return std::log(std::hypot(x / 4, y / 4)) + 2 * std::numbers::ln2;
  if (m < 1e-290 && m > 0) return std::log(std::hypot(x * 0x1p120, y * 0x1p120)) - 120 * std::numbers::ln2;
  return std::log(std::hypot(x, y));
}
__host__ __device__ inline Z log(Z z) { return {log_abs(z), std::atan2(z.imag(), z.real())}; }
__host__ __device__ inline Z log2(Z z) {
  const Z r = log(z);
  return {r.real() * std::numbers::log2e, r.imag() * std::numbers::log2e};
}
__host__ __device__ inline Z log10(Z z) {
  const Z r = log(z);
  return {r.real() * std::numbers::log10e, r.imag() * std::numbers::log10e};
}
// |1 + z| without cancellation where it is near 1
__host__ __device__ inline Z log1p(Z z) {
  const double a = z.real(), b = z.imag();
  if (!(std::abs(a) < 0.5 && std::abs(b) < 0.5)) return log(Z(1 + a, b));
  return {0.5 * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a)};
}

__host__ __device__ inline Z sqrt(Z z) {
  double x = z.real(), y = z.imag();
  if (is_inf(y)) return {infinity(), y};
  if (is_nan(x)) return {nan(), nan()};
  if (is_inf(x)) {
    const double other = is_nan(y) ? y : 0;
    return x > 0 ? Z(x, std::copysign(other, y)) : Z(other, std::copysign(x, y));
  }
  if (is_nan(y)) return {y, y};
  if (x == 0 && y == 0) return {0, y};
  // By powers of 4, so that |x| + |z| neither overflows nor is subnormal.
  double unscale = 1;
  const double m = std::abs(x) > std::abs(y) ? std::abs(x) : std::abs(y);
  if (m > 1e300) {
    x *= 0x1p-4;
    y *= 0x1p-4;
    unscale = 4;
  } else if (m < 1e-290) {
    x *= 0x1p120;
    y *= 0x1p120;
    unscale = 0x1p-60;
  }
  const double t = std::sqrt((std::abs(x) + std::hypot(x, y)) / 2), u = y / (2 * t);
  return x >= 0 ? Z(t * unscale, u * unscale) : Z(std::abs(u) * unscale, std::copysign(t, y) * unscale);
}

__host__ __device__ inline Z sinh(Z z) {
  const double x = z.real(), y = z.imag();
  if (y == 0) return {std::sinh(x), y};
  if (!is_finite(y)) return {x == 0 ? x : is_inf(x) ? infinity() : nan(), nan()};
  const double c = std::cos(y), s = std::sin(y);
  if (std::abs(x) < 700 || is_nan(x)) return {std::sinh(x) * c, std::cosh(x) * s};
  return scaled_exp(std::abs(x) - 700, std::copysign(kExp700 / 2, x) * c, kExp700 / 2 * s);
}
__host__ __device__ inline Z cosh(Z z) {
  const double x = z.real(), y = z.imag();
  if (x == 0) return {is_finite(y) ? std::cos(y) : nan(), is_finite(y) ? x * std::sin(y) : 0};
  if (y == 0) return {std::cosh(x), is_nan(x) ? y : std::copysign(1.0, x) * y};
  if (!is_finite(y)) return {is_inf(x) ? infinity() : nan(), nan()};
  const double c = std::cos(y), s = std::sin(y);
  if (std::abs(x) < 700 || is_nan(x)) return {std::cosh(x) * c, std::sinh(x) * s};
  return scaled_exp(std::abs(x) - 700, kExp700 / 2 * c, std::copysign(kExp700 / 2, x) * s);
}
// W. Kahan, "Branch cuts for complex elementary functions" (1987), as are the inverse functions below.
__host__ __device__ inline Z tanh(Z z) {
  const double x = z.real(), y = z.imag();
  if (is_inf(x))
    return {std::copysign(1.0, x), std::copysign(0.0, is_finite(y) && std::abs(y) > 1 ? std::sin(y) * std::cos(y) : y)};
  if (y == 0) return {std::tanh(x), y};
  if (!is_finite(y)) return {x == 0 ? x : nan(), nan()};
  if (std::abs(x) > 22) return {std::copysign(1.0, x), 4 * std::sin(y) * std::cos(y) * std::exp(-2 * std::abs(x))};
  const double t = std::tan(y), b = 1 + t * t, s = std::sinh(x), r = std::sqrt(1 + s * s), d = 1 + b * s * s;
  return {b * r * s / d, t / d};
}

// Beyond this a finite argument counts as large: 1 is nothing beside it.
inline constexpr double kLargeComplex = 1e20;

__host__ __device__ inline Z asin(Z z) {
  const double x = z.real(), y = z.imag();
  if (is_nan(x)) return {x, is_inf(y) ? y : nan()};
  if (is_nan(y)) return is_inf(x) ? Z(y, std::abs(x)) : x == 0 ? z : Z(y, y);
  const double ax = std::abs(x), ay = std::abs(y);
  if (ax > kLargeComplex || ay > kLargeComplex)
    return {std::atan2(x, ay), std::copysign(log_abs(z) + std::numbers::ln2, y)};
  const Z s = sqrt(Z(1 - x, -y)), t = sqrt(Z(1 + x, y));
  return {std::atan2(x, s.real() * t.real() - s.imag() * t.imag()),
          std::copysign(std::asinh(s.real() * t.imag() - s.imag() * t.real()), y)};
}
__host__ __device__ inline Z acos(Z z) {
  const double x = z.real(), y = z.imag();
  if (is_nan(x)) return {x, is_inf(y) ? -y : nan()};
  if (is_nan(y)) return is_inf(x) ? Z(y, -std::abs(x)) : Z(x == 0 ? kPi / 2 : y, y);
  const double ax = std::abs(x), ay = std::abs(y);
  if (ax > kLargeComplex || ay > kLargeComplex)
    return {std::atan2(ay, x), std::copysign(log_abs(z) + std::numbers::ln2, -y)};
  const Z s = sqrt(Z(1 - x, -y)), t = sqrt(Z(1 + x, y));
  return {2 * std::atan2(s.real(), t.real()), std::copysign(std::asinh(t.real() * s.imag() - t.imag() * s.real()), -y)};
}
__host__ __device__ inline Z asinh(Z z) { return swap(asin(swap(z))); }
__host__ __device__ inline Z acosh(Z z) {
  const Z r = acos(z);
  return {std::abs(r.imag()), std::copysign(r.real(), z.imag())};
}
__host__ __device__ inline Z atanh(Z z) {
  const double x = z.real(), y = z.imag(), ax = std::abs(x), ay = std::abs(y);
  if (is_inf(ay)) return {std::copysign(0.0, x), std::copysign(kPi / 2, y)};
  if (is_nan(y)) return {x == 0 || is_inf(ax) ? std::copysign(0.0, x) : y, y};
  if (is_nan(x)) return {x, x};
  double real, imag;
  if (ax > kLargeComplex || ay > kLargeComplex) {
    const double h = std::hypot(ax / 4, ay / 4);
    real = is_inf(ax) ? 0 : ax / 4 / h / h / 4;
    imag = kPi / 2;
  } else if (ax == 1) {
    real = ay < 1e-100 ? 0.5 * (std::numbers::ln2 - std::log(ay)) : std::log1p(4 / (ay * ay)) / 4;
    imag = ay == 0 ? 0 : std::atan2(2.0, -ay) / 2;
  } else {
    const double rest = 1 - ax;
    real = std::log1p(4 * ax / (rest * rest + ay * ay)) / 4;
    imag = std::atan2(2 * ay, rest * (1 + ax) - ay * ay) / 2;
  }
  return {std::copysign(real, x), std::copysign(imag, y)};
}

__host__ __device__ inline Z sin(Z z) { return swap(sinh(swap(z))); }
__host__ __device__ inline Z cos(Z z) { return cosh(Z(-z.imag(), z.real())); }
__host__ __device__ inline Z tan(Z z) { return swap(tanh(swap(z))); }
__host__ __device__ inline Z atan(Z z) { return swap(atanh(swap(z))); }

}  // namespace tessera::cuda::math
