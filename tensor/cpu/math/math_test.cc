// float64 functions against long double's, which has eleven bits more, and what happens outside of their ranges.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeast = std::numeric_limits<double>::denorm_min();

template <class T>
std::vector<T> results_of(const PointwiseOp& op, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  void* outs[] = {y.data()};
  const void* ins[] = {x.data()};
  op.kernels[static_cast<int>(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32)](static_cast<int64_t>(x.size()), outs,
                                                                                   ins, nullptr);
  return y;
}

// Half of them with uniform exponents.
std::vector<double> arguments(double low, double high, int count) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> x;
  for (int i = 0; i < count; ++i) {
    const double u = unit(generator), top = low >= 0 || i % 4 < 2 ? high : low;
    x.push_back(i % 2 ? low + u * (high - low)
                      : std::max(low, std::copysign(std::pow(10, -25 + u * (25 + std::log10(std::abs(top)))), top)));
  }
  return x;
}

long double exact_erfinv(long double y) {
  const long double a = std::abs(y);
  long double x = std::sqrt(-std::log((1 - a) * (1 + a))) * 0.9L;
  for (int i = 0; i < 30; ++i) {
    const long double step =
        (a < 0.5L ? std::erf(x) - a : 1 - a - std::erfc(x)) * 0.886226925452758013649L * std::exp(x * x);
    x -= step / (1 + x * step);
  }
  return std::copysign(x, y);
}
long double exact_digamma(long double x) {  // x positive
  long double terms = 0;
  for (; x < 30; ++x) terms += 1 / x;
  const long double w = 1 / (x * x);
  return std::log(x) - terms - 0.5L / x -
         w * (1 / 12.0L -
              w * (1 / 120.0L - w * (1 / 252.0L - w * (1 / 240.0L - w * (1 / 132.0L - w * 691 / 32760.0L)))));
}
long double exact_i0(long double x) {
  long double term = 1, sum = 1;
  for (int k = 1; k < 400; ++k) sum += term *= x * x / (4.0L * k * k);
  return sum;
}

TEST(Math, DoubleFunctionsKeepTheirBounds) {
  using L = long double;
  const struct {
    const char* name;
    const PointwiseOp* op;
    L (*reference)(L);
    double bound, low, high;
  } cases[] = {
      {"exp", &pw::exp, [](L x) { return std::exp(x); }, 0.56, -708, 709.7},
      {"exp2", &pw::exp2, [](L x) { return std::exp2(x); }, 0.56, -1022, 1023.9},
      {"expm1", &pw::expm1, [](L x) { return std::expm1(x); }, 0.56, -40, 709.7},
      {"log", &pw::log, [](L x) { return std::log(x); }, 0.54, 0, 1e30},
      {"log2", &pw::log2, [](L x) { return std::log2(x); }, 0.56, 0, 1e30},
      {"log10", &pw::log10, [](L x) { return std::log10(x); }, 0.56, 0, 4},
      {"log1p", &pw::log1p, [](L x) { return std::log1p(x); }, 0.54, -0.9999, 9},
      {"sin", &pw::sin, [](L x) { return std::sin(x); }, 0.54, -1e5, 1e5},
      {"cos", &pw::cos, [](L x) { return std::cos(x); }, 0.54, -10, 10},
      {"tan", &pw::tan, [](L x) { return std::tan(x); }, 0.54, -1e5, 1e5},
      {"asin", &pw::asin, [](L x) { return std::asin(x); }, 0.63, -1, 1},
      {"acos", &pw::acos, [](L x) { return std::acos(x); }, 0.63, -1, 1},
      {"atan", &pw::atan, [](L x) { return std::atan(x); }, 0.52, -9, 9},
      {"sinh", &pw::sinh, [](L x) { return std::sinh(x); }, 0.54, -9, 710},
      {"cosh", &pw::cosh, [](L x) { return std::cosh(x); }, 0.52, -710, 9},
      {"tanh", &pw::tanh, [](L x) { return std::tanh(x); }, 0.54, -9, 22},
      {"asinh", &pw::asinh, [](L x) { return std::asinh(x); }, 0.52, -9, 1e12},
      {"acosh", &pw::acosh, [](L x) { return std::acosh(x); }, 0.52, 1, 4},
      {"atanh", &pw::atanh, [](L x) { return std::atanh(x); }, 0.53, -1, 1},
      {"erf", &pw::erf, [](L x) { return std::erf(x); }, 0.6, -4, 7},
      {"erfc", &pw::erfc, [](L x) { return std::erfc(x); }, 1.1, -6, 26},
      {"erfinv", &pw::erfinv, exact_erfinv, 1.05, -1, 1},
      {"lgamma", &pw::lgamma, [](L x) { return std::lgamma(x); }, 0.56, 0, 1e6},
      {"lgamma", &pw::lgamma, [](L x) { return std::lgamma(x); }, 0.56, 0.5, 3},
      {"lgamma", &pw::lgamma, [](L x) { return std::lgamma(x); }, 4.5, -30, 0},
      {"digamma", &pw::digamma, exact_digamma, 0.8, 2, 1e6},
      {"digamma", &pw::digamma, exact_digamma, 1.4, 1e-9, 1.2},
      {"i0", &pw::i0, exact_i0, 2.9, -100, 100},
  };
  for (const auto& c : cases) {
    const std::vector<double> x = arguments(c.low, c.high, 40000), y = results_of(*c.op, x);
    double worst = 0, at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const L wanted = c.reference(x[i]);
      int exponent;
      std::frexp(wanted, &exponent);
      if (wanted == 0 || exponent < -1020) continue;
      const double error = static_cast<double>(std::abs(y[i] - wanted) / std::ldexp(L{1}, exponent - 53));
      if (!(error <= worst)) worst = error, at = x[i];
    }
    EXPECT_LE(worst, c.bound) << c.name << "(" << at << ")";
  }
}

template <class T>
void expect_results(const char* name, const PointwiseOp& op, std::vector<double> x, std::vector<double> wanted) {
  const std::vector<T> y = results_of(op, std::vector<T>(x.begin(), x.end()));
  for (size_t i = 0; i < x.size(); ++i) {
    const T w = static_cast<T>(wanted[i]);
    if (std::isnan(w))
      EXPECT_TRUE(std::isnan(y[i])) << name << "(" << x[i] << ") = " << y[i];
    else
      EXPECT_TRUE(y[i] == w && std::signbit(y[i]) == std::signbit(w))
          << name << "(" << x[i] << ") = " << y[i] << ", not " << w;
  }
}

TEST(Math, ZerosInfinitiesAndNumbersOutsideOfTheDomain) {
  const std::vector<double> x = {0.0, -0.0, kInf, -kInf, kNan, 1, -1};
  const double e = 2.718281828459045, pi = 3.141592653589793, sinh1 = 1.1752011936438014, cosh1 = 1.5430806348152437,
               tanh1 = 0.7615941559557649;
  const struct {
    const char* name;
    const PointwiseOp* op;
    std::vector<double> wanted;
  } cases[] = {
      {"exp", &pw::exp, {1, 1, kInf, 0, kNan, e, 1 / e}},
      {"exp2", &pw::exp2, {1, 1, kInf, 0, kNan, 2, 0.5}},
      {"expm1", &pw::expm1, {0.0, -0.0, kInf, -1, kNan, 1.7182818284590453, -0.6321205588285577}},
      {"log", &pw::log, {-kInf, -kInf, kInf, kNan, kNan, 0, kNan}},
      {"log2", &pw::log2, {-kInf, -kInf, kInf, kNan, kNan, 0, kNan}},
      {"log10", &pw::log10, {-kInf, -kInf, kInf, kNan, kNan, 0, kNan}},
      {"log1p", &pw::log1p, {0.0, -0.0, kInf, kNan, kNan, 0.6931471805599453, -kInf}},
      {"sin", &pw::sin, {0.0, -0.0, kNan, kNan, kNan, 0.8414709848078965, -0.8414709848078965}},
      {"cos", &pw::cos, {1, 1, kNan, kNan, kNan, 0.5403023058681398, 0.5403023058681398}},
      {"tan", &pw::tan, {0.0, -0.0, kNan, kNan, kNan, 1.5574077246549023, -1.5574077246549023}},
      {"asin", &pw::asin, {0.0, -0.0, kNan, kNan, kNan, pi / 2, -pi / 2}},
      {"acos", &pw::acos, {pi / 2, pi / 2, kNan, kNan, kNan, 0, pi}},
      {"atan", &pw::atan, {0.0, -0.0, pi / 2, -pi / 2, kNan, pi / 4, -pi / 4}},
      {"sinh", &pw::sinh, {0.0, -0.0, kInf, -kInf, kNan, sinh1, -sinh1}},
      {"cosh", &pw::cosh, {1, 1, kInf, kInf, kNan, cosh1, cosh1}},
      {"tanh", &pw::tanh, {0.0, -0.0, 1, -1, kNan, tanh1, -tanh1}},
      {"asinh", &pw::asinh, {0.0, -0.0, kInf, -kInf, kNan, 0.881373587019543, -0.881373587019543}},
      {"acosh", &pw::acosh, {kNan, kNan, kInf, kNan, kNan, 0, kNan}},
      {"atanh", &pw::atanh, {0.0, -0.0, kNan, kNan, kNan, kInf, -kInf}},
      {"erf", &pw::erf, {0.0, -0.0, 1, -1, kNan, 0.8427007929497149, -0.8427007929497149}},
      {"erfc", &pw::erfc, {1, 1, 0, 2, kNan, 0.15729920705028513, 1.8427007929497148}},
      {"erfinv", &pw::erfinv, {0.0, -0.0, kNan, kNan, kNan, kInf, -kInf}},
      {"lgamma", &pw::lgamma, {kInf, kInf, kInf, kInf, kNan, 0, kInf}},
      {"digamma", &pw::digamma, {-kInf, kInf, kInf, kNan, kNan, -0.5772156649015329, kNan}},
      {"i0", &pw::i0, {1, 1, kNan, kNan, kNan, 1.2660658777520084, 1.2660658777520084}},
      {"i1", &pw::i1, {0.0, -0.0, kNan, kNan, kNan, 0.565159103992485, -0.565159103992485}},
  };
  for (const auto& c : cases) {
    expect_results<double>(c.name, *c.op, x, c.wanted);
    if (std::string(c.name) != "tanh")
      expect_results<float>(c.name, *c.op, x, c.wanted);  // that of float32 may be the neighbour
  }
}

TEST(Math, ResultsAtTheEndsOfTheRange) {
  expect_results<double>("exp", pw::exp, {709.7827128933841, 709.79, -745.1, -745.2},
                         {std::exp(709.7827128933841), kInf, kLeast, 0});
  expect_results<double>("log", pw::log, {kLeast, 1e-310, 1.7e308, 1.7976931348623157e308},
                         {std::log(kLeast), std::log(1e-310), std::log(1.7e308), std::log(1.7976931348623157e308)});
  expect_results<double>("log2", pw::log2, {kLeast, 0x1p-1022, 0x1p1023, 8, 0.125}, {-1074, -1022, 1023, 3, -3});
  expect_results<double>("log10", pw::log10, {1e-5, 1e5, 1e22, 1000}, {-5, 5, 22, 3});
  expect_results<double>("log1p", pw::log1p, {1.7e308, 1e-300, kLeast}, {std::log(1.7e308), 1e-300, kLeast});
  expect_results<double>("asinh", pw::asinh, {1.7e308, 1e-300, kLeast}, {710.41998407378821, 1e-300, kLeast});
  expect_results<double>("cosh", pw::cosh, {710.4758600739439, 711}, {1.7976931348621744e308, kInf});
  expect_results<double>("sinh", pw::sinh, {-711, kLeast}, {-kInf, kLeast});
  expect_results<double>("atan", pw::atan, {1e300, -1e300, kLeast}, {std::atan(1e300), std::atan(-1e300), kLeast});
  expect_results<double>("erfc", pw::erfc, {30, -30}, {0, 2});
  expect_results<float>("exp2", pw::exp2, {-149, -151, 127, 128, -126}, {0x1p-149, 0, 0x1p127, kInf, 0x1p-126});
  expect_results<float>("log2", pw::log2, {0x1p-149, 0x1p-126, 0x1p127, 8}, {-149, -126, 127, 3});
  expect_results<float>("log10", pw::log10, {1e-5, 1e5, 1e10, 1000}, {-5, 5, 10, 3});
  expect_results<float>("asinh", pw::asinh, {3e38, 0x1p-149}, {std::asinh(3e38), 0x1p-149});
}

template <class T>
T result_of(const PointwiseOp& op, double a, double b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  T r;
  void* outs[] = {&r};
  const void* ins[] = {&x, &y};
  op.kernels[static_cast<int>(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32)](1, outs, ins, nullptr);
  return r;
}

TEST(Math, FunctionsOfTwoNumbersKeepTheirBounds) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> unit(0, 1);
  const struct {
    const char* name;
    const PointwiseOp* op;
    long double (*reference)(long double, long double);
    double bound, low, high, low2, high2;
  } cases[] = {
      {"pow", &pw::pow, [](long double x, long double y) { return std::pow(x, y); }, 0.52, 0, 100, -10, 10},
      {"pow", &pw::pow, [](long double x, long double y) { return std::pow(x, y); }, 0.8, 0.94, 1.06, -9000, 9000},
      {"pow", &pw::pow, [](long double x, long double y) { return std::pow(x, y); }, 0.7, 1e-310, 3e-308, -0.9, 0.9},
      {"hypot", &pw::hypot, [](long double x, long double y) { return std::hypot(x, y); }, 0.51, -5, 5, -1, 1},
      {"hypot", &pw::hypot, [](long double x, long double y) { return std::hypot(x, y); }, 0.51, 1e307, 1e308, 1e305,
       1e308},
  };
  for (const auto& c : cases) {
    for (int i = 0; i < 5000; ++i) {
      const double x = c.low + unit(generator) * (c.high - c.low), y = c.low2 + unit(generator) * (c.high2 - c.low2),
                   got = result_of<double>(*c.op, x, y);
      const long double wanted = c.reference(x, y);
      int exponent;
      std::frexp(wanted, &exponent);
      if (exponent < -1020) continue;
      ASSERT_LE(std::abs(got - wanted), c.bound * std::ldexp(1.0L, exponent - 53))
          << c.name << "(" << x << ", " << y << ")";
    }
  }
}

TEST(Math, PowersAndHypotenusesOfSpecialNumbers) {
  const double numbers[] = {0.0, -0.0,  1,      -1,     0.5,     -0.5, 2,     -2,  3,
                            -3,  1e300, -1e300, kLeast, 1.7e308, kInf, -kInf, kNan};
  for (const double x : numbers) {
    for (const double y : numbers) {
      const auto check = [&](const char* name, const PointwiseOp& op, double wanted, float wanted_float) {
        const double got = result_of<double>(op, x, y);
        const float got_float = result_of<float>(op, x, y);
        EXPECT_TRUE(std::isnan(wanted) ? std::isnan(got) : got == wanted && std::signbit(got) == std::signbit(wanted))
            << name << "(" << x << ", " << y << ") = " << got << ", not " << wanted;
        EXPECT_TRUE(std::isnan(wanted_float)
                        ? std::isnan(got_float)
                        : got_float == wanted_float && std::signbit(got_float) == std::signbit(wanted_float))
            << name << "(" << x << ", " << y << ") = " << got_float << ", not " << wanted_float;
      };
      check("pow", pw::pow, std::pow(x, y), std::pow(static_cast<float>(x), static_cast<float>(y)));
      check("hypot", pw::hypot, std::hypot(x, y), std::hypot(static_cast<float>(x), static_cast<float>(y)));
    }
  }
}

TEST(Math, GammaFunctions) {
  for (const float x :
       {-0.5f, -1.25f, -7.75f, -20.5f, -1000.25f, 0x1p-140f, -0x1p-140f, 0.75f, 1.5f, 2.5f, 30.0f, 1e30f}) {
    EXPECT_NEAR(results_of<float>(pw::lgamma, {x})[0] / std::lgamma(static_cast<double>(x)), 1, 1.2e-7) << x;
  }
  expect_results<float>("lgamma", pw::lgamma, {-3, -1e30, 2}, {kInf, kInf, 0});
  // From 5/2 on vectors, elsewhere the C library: the results of one lane do not depend on the others.
  for (const double x :
       {-0.5, -7.75, 0.75, 2.4999999999999996, 2.5, 3.0, 7.999999999999999, 8.0, 1000.5, 1e17, 1e280, 2e280, 2.5e305}) {
    const double wanted = std::lgamma(x);
    EXPECT_NEAR(results_of<double>(pw::lgamma, {x})[0] / wanted, 1, 7e-16) << x;
  }
  expect_results<double>("lgamma", pw::lgamma, {2.6e305, kInf, -kInf, kNan, -3}, {kInf, kInf, kInf, kNan, kInf});
  const double pi = 3.141592653589793;
  for (const double x : {-0.25, -0.75, -3.25, -100.25}) {
    const double wanted = static_cast<double>(exact_digamma(1 - x)) - pi / std::tan(pi * (x - std::round(x)));
    EXPECT_NEAR(results_of<double>(pw::digamma, {x})[0], wanted, 4e-15 * std::abs(wanted)) << x;
    EXPECT_NEAR(results_of<float>(pw::digamma, {static_cast<float>(x)})[0], wanted, 1e-7 * std::abs(wanted)) << x;
  }
  expect_results<double>("i0", pw::i0, {-714, 1e300}, {kInf, kInf});
  EXPECT_NEAR(results_of<double>(pw::i0, {700.0})[0] / 1.5295933476718737e302, 1, 1e-15);
  expect_results<double>("i1", pw::i1, {-1e300, 1e300}, {-kInf, kInf});
  EXPECT_NEAR(results_of<double>(pw::i1, {-700.0})[0] / -1.5285003902339006e302, 1, 1e-15);
  // On both sides of where the series changes.
  EXPECT_NEAR(results_of<double>(pw::i1, {30.0})[0] / 768532038938.95700, 1, 2e-15);
  EXPECT_NEAR(results_of<double>(pw::i1, {29.5})[0] / 469968885416.27730, 1, 2e-15);
  expect_results<double>("digamma", pw::digamma, {-3, 1e300, 0x1p-600}, {kNan, std::log(1e300), -0x1p600});
}

}  // namespace
}  // namespace tessera
