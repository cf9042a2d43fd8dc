// For tests of elementwise ops: one call on dense data, and comparisons with functions of double.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera::pointwise_testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline KernelParam real_param(double f) {
  KernelParam p;
  p.f = f;
  return p;
}
inline KernelParam int_param(int64_t i) {
  KernelParam p;
  p.i = i;
  return p;
}

// Random numbers of many sizes, and special ones.
template <class T>
std::vector<T> samples(int n, unsigned seed, bool unit = false) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double special[] = {0.0,   -0.0, 1.0,   -1.0,   0.5,  -0.5,  3.0,  -3.0,  kInf,
                            -kInf, kNan, 1e-40, -1e-40, 1e30, -1e30, 88.8, -87.4, 20.5};
  std::vector<T> v(n);
  for (int i = 0; i < n; ++i) {
    if (unit)
      v[i] = static_cast<T>(uniform(rng));
    else if (i % 7 == 3)
      v[i] = static_cast<T>(special[rng() % std::size(special)]);
    else
      v[i] = static_cast<T>(normal(rng) * (i % 3 == 0 ? std::pow(10.0, 6 * uniform(rng) - 3) : 1));
  }
  return v;
}

// One call on contiguous data of one dtype.
template <class T, class Out = T>
std::vector<Out> run(const PointwiseOp& op, const std::vector<std::vector<T>>& inputs,
                     const std::vector<KernelParam>& params = {}) {
  const int64_t n = static_cast<int64_t>(inputs[0].size());
  std::vector<Out> out(n);
  const int64_t in_stride = sizeof(T), out_stride = sizeof(Out);
  std::vector<cpu::Operand> ins;
  for (const auto& v : inputs) ins.push_back({const_cast<T*>(v.data()), DTypeOf<T>::value, &in_stride});
  const cpu::Operand o{out.data(), DTypeOf<Out>::value, &out_stride};
  cpu::run_pointwise(op, kernel_dtype(op, DTypeOf<T>::value).value(), {&n, 1}, {&o, 1}, ins, params.data());
  return out;
}

// Distance in units in the last place of T; infinite where one is nan and the other is not.
template <class T>
double ulps(T got, double want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : kInf;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {  // a neighbour of infinity is near enough
    return std::abs(static_cast<double>(std::isinf(got) ? rounded : got)) > 0.999 * std::numeric_limits<T>::max()
               ? 1
               : kInf;
  }
  const double unit =
      std::max<double>(std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity()) - std::abs(rounded),
                       std::numeric_limits<T>::denorm_min());
  return std::abs(static_cast<double>(got) - want) / unit;
}

struct Case {
  const char* name;
  const PointwiseOp* op;
  std::function<double(const double*)> reference;  // in double, of inputs that are floats
  double tolerance;                                // ulps of float32
  std::vector<KernelParam> params = {};
  bool unit = false;    // inputs in [0, 1]
  double absolute = 0;  // where the formula cancels
  bool float_only = false, may_be_nan = false;
};

inline double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

inline void expect_float_cases(const std::vector<Case>& cases) {
  const int n = 1021;
  for (const Case& c : cases) {
    std::vector<std::vector<float>> in;
    for (int k = 0; k < c.op->num_inputs; ++k) in.push_back(samples<float>(n, 17 + k, c.unit));
    const std::vector<float> got = run(*c.op, in, c.params);
    int wrong = 0;
    for (int i = 0; i < n && wrong < 3; ++i) {
      double x[4];
      for (size_t k = 0; k < in.size(); ++k) x[k] = in[k][i];
      const double want = c.reference(x);
      if (c.may_be_nan && std::isnan(want)) continue;
      if (std::abs(got[i] - want) <= c.absolute) continue;
      if (std::isinf(want) == 0 && std::abs(want) < 1.2e-38 && std::abs(got[i] - want) < 1e-43)
        continue;  // subnormal results
      const double distance = ulps(got[i], want);
      if (!(distance <= c.tolerance)) {
        ++wrong;
        ADD_FAILURE() << c.name << "(" << x[0] << (in.size() > 1 ? ", " + std::to_string(x[1]) : "") << ") = " << got[i]
                      << ", not " << want << ": " << distance << " ulp";
      }
    }
  }
}

inline void expect_double_cases(const std::vector<Case>& cases) {
  const int n = 517;
  for (const Case& c : cases) {
    if (c.absolute != 0 || c.float_only) continue;
    std::vector<std::vector<double>> in;
    for (int k = 0; k < c.op->num_inputs; ++k) in.push_back(samples<double>(n, 23 + k, c.unit));
    const std::vector<double> got = run(*c.op, in, c.params);
    for (int i = 0; i < n; ++i) {
      double x[4];
      for (size_t k = 0; k < in.size(); ++k) x[k] = in[k][i];
      const double want = c.reference(x);
      if (std::isnan(want) && std::isnan(got[i])) continue;
      if (want == got[i]) continue;
      EXPECT_LE(std::abs(got[i] - want), 1e-14 * std::abs(want) + 1e-300)
          << c.name << "(" << x[0] << (in.size() > 1 ? ", " + std::to_string(x[1]) : "") << ")";
    }
  }
}

struct Bound {
  const char* name;
  const PointwiseOp* op;
  double (*reference)(double);
  double bound, limit;  // ulps, for |x| up to limit
};
// Every 1021st float: pieces of tables, their borders, subnormals.
inline void expect_bounds(const std::vector<Bound>& cases) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1021)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  std::vector<float> y(x.size());
  for (const auto& c : cases) {
    void* outs[] = {y.data()};
    const void* ins[] = {x.data()};
    c.op->kernels[static_cast<int>(DType::kFloat32)](static_cast<int64_t>(x.size()), outs, ins, nullptr);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::abs(x[i]) > c.limit) continue;
      const double wanted = c.reference(x[i]), distance = ulps(y[i], wanted);
      if (distance > worst) worst = distance, at = x[i];
    }
    EXPECT_LE(worst, c.bound) << c.name << "(" << at << ")";
  }
}

}  // namespace tessera::pointwise_testing
