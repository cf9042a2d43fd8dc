#include "distributions/cpu/beta_gradient.h"

#include <cmath>
#include <limits>

#include "tensor/core/parallel.h"
#include "tensor/cpu/math/math_scalar.h"

namespace tessera::cpu {
namespace {

// A number with its derivative in a parameter.
struct Dual {
  double value, slope;
};
Dual operator+(Dual x, double y) { return {x.value + y, x.slope}; }
Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.slope * y.value + x.value * y.slope}; }
Dual operator/(Dual x, Dual y) {
  const double q = x.value / y.value;
  return {q, (x.slope - q * y.slope) / y.value};
}
Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }

// The continued fraction of a B(a, b) I_x(a, b) / (x^a (1 - x)^b) (NIST DLMF 8.17.22), x below its mean, by the method
// of Lentz.
Dual fraction(Dual a, Dual b, double x) {
  const auto kept = [](Dual d) { return std::fabs(d.value) < 1e-290 ? Dual{1e-290, 0} : d; };
  const Dual one{1, 0}, sum = a + b;
  Dual c = one, d = one / kept(Dual{1, 0} + Dual{-x, 0} * sum / (a + 1)), r = d;
  for (int m = 1; m < 100000; ++m) {
    const double k = m;
    const Dual twice = a + 2 * k;
    const Dual even = Dual{k * x, 0} * (b + -k) / ((twice + -1) * twice);
    d = one / kept(one + even * d), c = kept(one + even / c), r = r * c * d;
    const Dual odd = Dual{-x, 0} * (a + k) * (sum + k) / (twice * (twice + 1));
    d = one / kept(one + odd * d), c = kept(one + odd / c);
    const Dual step = c * d;
    r = r * step;
    if (std::fabs(step.value - 1) < 1e-15 && std::fabs(step.slope) < 1e-14 * (1 + std::fabs(r.slope / r.value))) break;
  }
  return r;
}

// -(dI/da) / (dI/dx) / (1 - x); the density cancels against the factor before the fraction.
double gradient(double x, double a, double b) {
  if (!(x >= 0 && x <= 1 && a > 0 && b > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return 0;
  const double gammas = scalar::digamma(a + b) - scalar::digamma(a);
  if (x == 1) return 0;  // of the whole interval's end: nothing moves there
  if (x <= (a + 1) / (a + b + 2)) {
    const Dual f = fraction({a, 1}, {b, 0}, x);
    return -x / a * f.value * (std::log(x) + gammas - 1 / a + f.slope / f.value);
  }
  const Dual f = fraction({b, 0}, {a, 1}, 1 - x);
  return x / b * f.value * (std::log(x) + gammas + f.slope / f.value);
}

}  // namespace

void beta_gradient(int64_t n, double* out, const double* x, const double* a, const double* total) {
  parallel_for(n, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = gradient(x[i], a[i], total[i] - a[i]);
  });
}

}  // namespace tessera::cpu
