// For tests of mathematical functions on the device: how far they are from the true values, and that they agree with
// the CPU's at the edges.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda::math_testing {

using testing::Mirror;
using Long = long double;
inline constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// Results of the device for dense inputs of one type; Out differs from T for real results of complex inputs.
template <class T, class Out = T>
std::vector<Out> run(const PointwiseOp& op, const std::vector<std::vector<T>>& in,
                     const std::vector<KernelParam>& params, bool on_cpu = false) {
  const int64_t n = static_cast<int64_t>(in[0].size()), stride = sizeof(T), out_stride = sizeof(Out);
  std::vector<Mirror> inputs;
  std::vector<cpu::Operand> operands;
  for (const auto& x : in) inputs.push_back(Mirror::of(x));
  for (Mirror& m : inputs) operands.push_back({on_cpu ? m.host() : m.device(), DTypeOf<T>::value, &stride});
  Mirror result = Mirror::of(std::vector<Out>(n));
  const cpu::Operand out{on_cpu ? result.host() : result.device(), DTypeOf<Out>::value, &out_stride};
  const DType compute = kernel_dtype(op, DTypeOf<T>::value).value();
  (on_cpu ? cpu::run_pointwise : cuda::run_pointwise)(op, compute, {&n, 1}, {&out, 1}, operands, params.data());
  const std::vector<uint8_t> bytes = on_cpu ? result.host_bytes() : result.device_bytes();
  std::vector<Out> values(n);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline KernelParam real_param(double x) {
  KernelParam p;
  p.f = x;
  return p;
}

// Distance in units in the last place of T (those of the smallest normal number below it).
template <class T>
double ulps(T got, Long want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : kInf;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return kInf;
  int exponent;
  std::frexp(std::max(std::fabs(rounded), std::numeric_limits<T>::min()), &exponent);
  return static_cast<double>(std::fabs(static_cast<Long>(got) - want) /
                             std::ldexp(Long{1}, exponent - std::numeric_limits<T>::digits));
}

inline Long logistic(Long x) { return 1 / (1 + std::exp(-x)); }
inline Long softplus(Long x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

struct Case {
  const char* name;
  const PointwiseOp* op;
  std::function<Long(const Long*)> reference;
  double low, high;   // of the inputs
  double float_ulps;  // bounds
  double double_ulps;
  std::vector<KernelParam> params = {};
  double absolute = 0;  // in units of the type's precision, where the result cancels
};

// Uniform in the range, and small numbers of all sizes in it.
template <class T>
std::vector<T> samples(int n, uint64_t seed, double low, double high) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high), exponent(-20, 0);
  std::vector<T> v(n);
  for (int i = 0; i < n; ++i) {
    double x = uniform(generator);
    if (i % 4 == 0) {
      const double scaled = x * std::exp(exponent(generator));
      if (scaled >= low && scaled <= high) x = scaled;
    }
    v[i] = static_cast<T>(x);
  }
  return v;
}

template <class T>
void check_accuracy(const std::vector<Case>& cases, double Case::*bound) {
  const int n = sizeof(T) == 4 ? 20001 : 4001;
  for (const Case& c : cases) {
    std::vector<std::vector<T>> in;
    for (int k = 0; k < c.op->num_inputs; ++k) in.push_back(samples<T>(n, 100 + k, c.low, c.high));
    const std::vector<T> got = run(*c.op, in, c.params);
    double worst = 0;
    std::string where;
    for (int i = 0; i < n; ++i) {
      Long x[3];
      for (size_t k = 0; k < in.size(); ++k) x[k] = in[k][i];
      const Long want = c.reference(x);
      if (std::fabs(static_cast<Long>(got[i]) - want) <= c.absolute * std::numeric_limits<T>::epsilon()) continue;
      const double distance = ulps(got[i], want);
      if (distance <= worst) continue;
      worst = distance;
      where = "(" + std::to_string(static_cast<double>(x[0]));
      if (in.size() > 1) where += ", " + std::to_string(static_cast<double>(x[1]));
      where += ") = " + std::to_string(got[i]) + ", not " + std::to_string(static_cast<double>(want));
    }
    std::printf("%-22s %-8s %8.2f ulp\n", c.name, sizeof(T) == 4 ? "float32" : "float64", worst);
    EXPECT_LE(worst, c.*bound) << c.name << where;
  }
}
struct Op {
  const PointwiseOp* op;
  std::vector<KernelParam> params = {};
  double size = 0;  // of the terms that cancel in the result, which is as good as these are
};

// All combinations of `values` as the inputs of an op.
template <class T>
std::vector<std::vector<T>> combinations(const std::vector<T>& values, int inputs) {
  std::vector<std::vector<T>> in(inputs);
  size_t n = 1;
  for (int k = 0; k < inputs; ++k) n *= values.size();
  for (size_t i = 0; i < n; ++i) {
    size_t rest = i;
    for (int k = 0; k < inputs; ++k, rest /= values.size()) in[k].push_back(values[rest % values.size()]);
  }
  return in;
}

// Nearly the same number, with the sign of a zero.
template <class R>
bool agrees(R a, R b, double tolerance, double size = 0) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return a != 0 || std::signbit(a) == std::signbit(b);
  if (std::isinf(a) || std::isinf(b)) return std::fabs(std::isinf(a) ? b : a) > std::numeric_limits<R>::max() * 0.999;
  const double unit = tolerance * std::numeric_limits<R>::epsilon();
  return std::fabs(static_cast<double>(a) - b) <=
         unit * std::max(
                    {std::fabs(static_cast<double>(b)), size, static_cast<double>(std::numeric_limits<R>::min()) * 8});
}

template <class T>
std::string text(T x) {
  return std::to_string(x);
}
template <class R>
std::string text(std::complex<R> x) {
  return "(" + std::to_string(x.real()) + ", " + std::to_string(x.imag()) + ")";
}

template <class T, class Out = T, class F>
void expect_as_on_cpu(const Op& o, const std::vector<std::vector<T>>& in, F agree) {
  const std::vector<Out> want = run<T, Out>(*o.op, in, o.params, true), got = run<T, Out>(*o.op, in, o.params);
  int shown = 0;
  for (size_t i = 0; i < want.size() && shown < 4; ++i) {
    if (agree(got[i], want[i], i)) continue;
    ++shown;
    std::string inputs;
    for (const auto& x : in) inputs += (inputs.empty() ? "" : ", ") + text(x[i]);
    ADD_FAILURE() << o.op->name << " of " << name_of(DTypeOf<T>::value) << " (" << inputs << ") = " << text(got[i])
                  << ", not " << text(want[i]);
  }
}

template <class T>
void check_edges(const std::vector<Op>& ops) {
  using L = std::numeric_limits<T>;
  const std::vector<double> values = {0.0,  -0.0,  1,        -1,          0.5,      -0.5,      2,    -2,    3,   -3,
                                      7.25, -7.75, 1e-3,     -1e-3,       20.5,     -20.5,     50,   -60,   100, -100,
                                      1e4,  -1e4,  L::max(), L::lowest(), L::min(), -L::min(), kInf, -kInf, kNan};
  std::vector<T> typed;
  for (double v : values) typed.push_back(static_cast<T>(v));
  const std::vector<T> few = {T(0.0),           T(-0.0), T(1), T(-2), T(0.25), T(L::infinity()), -T(L::infinity()),
                              T(L::quiet_NaN())};
  for (const Op& o : ops) {
    const auto in = combinations(o.op->num_inputs == 3 ? few : typed, o.op->num_inputs);
    expect_as_on_cpu<T>(o, in, [&](T a, T b, size_t i) {
      double size = o.size;
      if (o.op->num_inputs > 1 && o.op != &pw::hypot && o.op != &pw::atan2) {
        for (const auto& x : in) size = std::max(size, std::isfinite(x[i]) ? std::fabs(static_cast<double>(x[i])) : 0);
      }
      if (o.op == &pw::sinc && std::fabs(in[0][i]) > 0.9) size = 1;  // sin of a rounded product with pi
      if (a == 0 && b == 0) return true;  // the sign of a zero is not documented for most of them
      return agrees(a, b, 64, std::min(size, 1e30));
    });
  }
}
// Complex numbers: parts of all kinds, then random ones.
template <class R>
std::vector<std::complex<R>> complex_values() {
  using C = std::complex<R>;
  using L = std::numeric_limits<R>;
  std::vector<C> values;
  const std::vector<R> parts = {R(0.0),  R(-0.0), R(1),  R(-1),         R(0.5),         R(-2),
                                R(1e-5), R(3),    R(30), L::infinity(), -L::infinity(), L::quiet_NaN()};
  for (R x : parts) {
    for (R y : parts) values.emplace_back(x, y);
  }
  std::mt19937_64 generator(5);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 500; ++i) {
    const double scale = std::exp(normal(generator) * (i % 2 ? 0.5 : 3));
    values.emplace_back(static_cast<R>(normal(generator) * scale), static_cast<R>(normal(generator) * scale));
  }
  return values;
}
// Functions: each part is right, edges as in Annex G.
template <class R>
void check_complex_functions(const std::vector<Op>& functions) {
  using C = std::complex<R>;
  const std::vector<C> values = complex_values<R>();
  for (const Op& o : functions) {
    expect_as_on_cpu<C>(o, {values}, [](C a, C b, size_t) {
      return (agrees(a.real(), b.real(), 16) || (a.real() == 0 && b.real() == 0)) &&
             (agrees(a.imag(), b.imag(), 16) || (a.imag() == 0 && b.imag() == 0));
    });
  }
}
// Formulas: near beside the size of the result; where an infinity is lost in one of them, the other may have it.
template <class R>
void check_complex_formulas(const std::vector<Op>& formulas) {
  using C = std::complex<R>;
  const std::vector<C> values = complex_values<R>();
  for (const Op& o : formulas) {
    expect_as_on_cpu<C>(o, {values}, [&](C a, C b, size_t i) {
      if (!std::isfinite(values[i].real()) || !std::isfinite(values[i].imag()) || std::abs(values[i]) > 60) return true;
      if (a == b) return true;
      const double size = std::max(1e-30, static_cast<double>(std::abs(b)));
      return agrees(a.real(), b.real(), 64, size) && agrees(a.imag(), b.imag(), 64, size);
    });
  }
}
template <class R>
void check_complex_pairs(const std::vector<Op>& pairs) {
  using C = std::complex<R>;
  const std::vector<C> values = complex_values<R>(), others(values.rbegin(), values.rend());
  for (const Op& o : pairs) {
    expect_as_on_cpu<C>(o, {values, others}, [&](C a, C b, size_t i) {
      const double size = static_cast<double>(std::abs(values[i])) + static_cast<double>(std::abs(others[i]));
      if (!(size < 40)) return true;
      const double terms = (1 + size) * (1 + size) * (1 + size);
      return agrees(a.real(), b.real(), 64, terms) && agrees(a.imag(), b.imag(), 64, terms);
    });
  }
}

// Small integers and the ends of their range.
template <class T>
std::vector<T> integer_values() {
  using L = std::numeric_limits<T>;
  return {0,
          1,
          2,
          3,
          5,
          6,
          7,
          100,
          L::max(),
          L::min(),
          static_cast<T>(L::max() - 1),
          static_cast<T>(-1),
          static_cast<T>(-3)};
}

// float16 and bfloat16 round the float32 result once.
template <class T>
void check_halves(const std::vector<const PointwiseOp*>& ops) {
  std::vector<T> values;
  for (float x = -12; x < 12; x += 0.37f) values.push_back(T(x));
  std::vector<float> floats(values.begin(), values.end());
  for (const PointwiseOp* op : ops) {
    const std::vector<T> got = run<T>(*op, {values}, {});
    const std::vector<float> want = run<float>(*op, {floats}, {});
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(got[i].bits, T(want[i]).bits) << op->name << " " << floats[i];
  }
}

}  // namespace tessera::cuda::math_testing
