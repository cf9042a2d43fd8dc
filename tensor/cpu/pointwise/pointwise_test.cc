#include "tensor/cpu/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/pointwise/pointwise_testing.h"

namespace tessera {
namespace {

using namespace pointwise_testing;

double python_mod(double a, double b) {
  const double m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

std::vector<Case> arithmetic_cases() {
  using std::abs;
  const auto p = real_param;
  using D = const double*;
  return {
      {"add", &pw::add, [](D x) { return x[0] + 2 * x[1]; }, 1, {p(2)}},
      {"sub", &pw::sub, [](D x) { return x[0] - 2 * x[1]; }, 1, {p(2)}},
      {"rsub", &pw::rsub, [](D x) { return x[1] - 2 * x[0]; }, 1, {p(2)}},
      {"mul", &pw::mul, [](D x) { return x[0] * x[1]; }, 0.51},
      {"div", &pw::div, [](D x) { return x[0] / x[1]; }, 0.51},
      {"fmod", &pw::fmod, [](D x) { return std::fmod(x[0], x[1]); }, 0.51},
      {"remainder", &pw::remainder, [](D x) { return python_mod(x[0], x[1]); }, 1},
      {"pow", &pw::pow, [](D x) { return std::pow(x[0], x[1]); }, 2},
      {"atan2", &pw::atan2, [](D x) { return std::atan2(x[0], x[1]); }, 2},
      {"copysign", &pw::copysign, [](D x) { return std::copysign(x[0], x[1]); }, 0},
      {"hypot", &pw::hypot, [](D x) { return std::hypot(x[0], x[1]); }, 1},
      {"maximum", &pw::maximum, [](D x) { return x[0] != x[0] || x[1] != x[1] ? kNan : std::max(x[0], x[1]); }, 0},
      {"minimum", &pw::minimum, [](D x) { return x[0] != x[0] || x[1] != x[1] ? kNan : std::min(x[0], x[1]); }, 0},
      {"fmax", &pw::fmax, [](D x) { return std::fmax(x[0], x[1]); }, 0},
      {"fmin", &pw::fmin, [](D x) { return std::fmin(x[0], x[1]); }, 0},
      {"xlogy", &pw::xlogy, [](D x) { return x[1] != x[1] ? kNan
                                             : x[0] == 0  ? 0
                                                          : x[0] * std::log(x[1]); }, 2},
      {"heaviside", &pw::heaviside, [](D x) { return x[0] == 0 ? x[1] : x[0] > 0; }, 0},
      {"abs", &pw::abs, [](D x) { return abs(x[0]); }, 0},
      {"neg", &pw::neg, [](D x) { return -x[0]; }, 0},
      {"sign", &pw::sign, [](D x) { return (x[0] > 0) - (x[0] < 0); }, 0},
      {"square", &pw::square, [](D x) { return x[0] * x[0]; }, 0.51},
  };
}

std::vector<Case> function_cases() {
  const auto p = real_param;
  using D = const double*;
  return {
      {"reciprocal", &pw::reciprocal, [](D x) { return 1 / x[0]; }, 0.51},
      {"sqrt", &pw::sqrt, [](D x) { return std::sqrt(x[0]); }, 0.51},
      {"rsqrt", &pw::rsqrt, [](D x) { return 1 / std::sqrt(x[0]); }, 2},
      {"exp", &pw::exp, [](D x) { return std::exp(x[0]); }, 2},
      {"exp2", &pw::exp2, [](D x) { return std::exp2(x[0]); }, 2},
      {"expm1", &pw::expm1, [](D x) { return std::expm1(x[0]); }, 2},
      {"log", &pw::log, [](D x) { return std::log(x[0]); }, 2},
      {"log1p", &pw::log1p, [](D x) { return std::log1p(x[0]); }, 2.1},
      {"log2", &pw::log2, [](D x) { return std::log2(x[0]); }, 2},
      {"log10", &pw::log10, [](D x) { return std::log10(x[0]); }, 2},
      {"sin", &pw::sin, [](D x) { return std::sin(x[0]); }, 2},
      {"cos", &pw::cos, [](D x) { return std::cos(x[0]); }, 2},
      {"tan", &pw::tan, [](D x) { return std::tan(x[0]); }, 3},
      {"asin", &pw::asin, [](D x) { return std::asin(x[0]); }, 2},
      {"acos", &pw::acos, [](D x) { return std::acos(x[0]); }, 2},
      {"atan", &pw::atan, [](D x) { return std::atan(x[0]); }, 2},
      {"sinh", &pw::sinh, [](D x) { return std::sinh(x[0]); }, 2},
      {"cosh", &pw::cosh, [](D x) { return std::cosh(x[0]); }, 2},
      {"tanh", &pw::tanh, [](D x) { return std::tanh(x[0]); }, 2.5},
      {"asinh", &pw::asinh, [](D x) { return std::asinh(x[0]); }, 2},
      {"acosh", &pw::acosh, [](D x) { return std::acosh(x[0]); }, 2},
      {"atanh", &pw::atanh, [](D x) { return std::atanh(x[0]); }, 2},
      {"sigmoid", &pw::sigmoid, [](D x) { return logistic(x[0]); }, 3, {}, false, 1e-38},
      {"erf", &pw::erf, [](D x) { return std::erf(x[0]); }, 2},
      {"erfc", &pw::erfc, [](D x) { return std::erfc(x[0]); }, 4},
      {"lgamma", &pw::lgamma, [](D x) { return x[0] == -kInf ? kInf : std::lgamma(x[0]); }, 2},
      {"ceil", &pw::ceil, [](D x) { return std::ceil(x[0]); }, 0},
      {"floor", &pw::floor, [](D x) { return std::floor(x[0]); }, 0},
      {"round", &pw::round, [](D x) { return std::nearbyint(x[0]); }, 0},
      {"trunc", &pw::trunc, [](D x) { return std::trunc(x[0]); }, 0},
      {"frac", &pw::frac, [](D x) { return x[0] - std::trunc(x[0]); }, 0},
      {"angle", &pw::angle, [](D x) { return x[0] != x[0] ? x[0]
                                             : x[0] < 0   ? M_PI
                                                          : 0; }, 0.51},
      {"nan_to_num",
       &pw::nan_to_num,
       [](D x) {
         return x[0] != x[0] ? 1 : x[0] == kInf ? 2 : x[0] == -kInf ? 3 : x[0];
       },
       0,
       {p(1), p(2), p(3)}},
      {"clamp", &pw::clamp, [](D x) { return clamp(x[0], -1, 2); }, 0, {p(-1), p(2)}},
      {"lerp_scalar", &pw::lerp_scalar, [](D x) { return x[0] + 0.25 * (x[1] - x[0]); }, 2, {p(0.25)}, false, 1e-6},
      {"sigmoid_backward", &pw::sigmoid_backward, [](D x) { return x[0] * (1 - x[1]) * x[1]; }, 3, {}, true},
      {"tanh_backward", &pw::tanh_backward, [](D x) { return x[0] * (1 - x[1] * x[1]); }, 3, {}, true, 1e-6},
  };
}

TEST(Pointwise, FloatOpsAgreeWithTheScalarLibrary) {
  expect_float_cases(arithmetic_cases());
  expect_float_cases(function_cases());
}
TEST(Pointwise, DoubleOpsAgreeWithTheScalarLibrary) {
  expect_double_cases(arithmetic_cases());
  expect_double_cases(function_cases());
}

// The bounds are those of math-inl.h.
TEST(Pointwise, FunctionsKeepTheirBoundsOverAllFloats) {
  expect_bounds({
      {"exp", &pw::exp, [](double x) { return std::exp(x); }, 0.8, 1e30},
      {"exp2", &pw::exp2, [](double x) { return std::exp2(x); }, 0.8, 1e30},
      {"expm1", &pw::expm1, [](double x) { return std::expm1(x); }, 0.95, 1e39},
      {"log", &pw::log, [](double x) { return std::log(x); }, 0.8, 1e39},
      {"log2", &pw::log2, [](double x) { return std::log2(x); }, 0.53, 1e39},
      {"log10", &pw::log10, [](double x) { return std::log10(x); }, 0.53, 1e39},
      {"log1p", &pw::log1p, [](double x) { return std::log1p(x); }, 0.85, 1e39},
      {"sin", &pw::sin, [](double x) { return std::sin(x); }, 0.6, 1e39},
      {"cos", &pw::cos, [](double x) { return std::cos(x); }, 0.6, 1e39},
      {"tan", &pw::tan, [](double x) { return std::tan(x); }, 0.6, 8000},
      {"asin", &pw::asin, [](double x) { return std::asin(x); }, 1.1, 1},
      {"acos", &pw::acos, [](double x) { return std::acos(x); }, 1.1, 1},
      {"atan", &pw::atan, [](double x) { return std::atan(x); }, 0.53, 1e39},
      {"tanh", &pw::tanh, [](double x) { return std::tanh(x); }, 2.5, 1e39},
      {"sinh", &pw::sinh, [](double x) { return std::sinh(x); }, 1.7, 88},
      {"cosh", &pw::cosh, [](double x) { return std::cosh(x); }, 0.51, 88},
      {"asinh", &pw::asinh, [](double x) { return std::asinh(x); }, 0.51, 1e39},
      {"acosh", &pw::acosh, [](double x) { return std::acosh(x); }, 0.51, 1e39},
      {"atanh", &pw::atanh, [](double x) { return std::atanh(x); }, 0.51, 1},
      {"erf", &pw::erf, [](double x) { return std::erf(x); }, 0.75, 1e39},
      {"erfc", &pw::erfc, [](double x) { return std::erfc(x); }, 1.15, 1e39},
      {"rsqrt", &pw::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5, 1e39},
  });
}

TEST(Pointwise, PredicatesAndComparisons) {
  const int n = 301;
  const auto a = samples<float>(n, 1), b = samples<float>(n, 2);
  std::vector<float> c = a;
  for (int i = 0; i < n; i += 2) c[i] = b[i];
  using Ref = bool (*)(float, float);
  const std::pair<const PointwiseOp*, Ref> binary[] = {{&pw::eq, [](float x, float y) { return x == y; }},
                                                       {&pw::ne, [](float x, float y) { return x != y; }},
                                                       {&pw::lt, [](float x, float y) { return x < y; }},
                                                       {&pw::le, [](float x, float y) { return x <= y; }},
                                                       {&pw::gt, [](float x, float y) { return x > y; }},
                                                       {&pw::ge, [](float x, float y) { return x >= y; }},
                                                       {&pw::logical_and, [](float x, float y) { return x && y; }},
                                                       {&pw::logical_or, [](float x, float y) { return x || y; }},
                                                       {&pw::logical_xor, [](float x, float y) { return !x != !y; }}};
  for (const auto& [op, reference] : binary) {
    std::vector<uint8_t> out(n);
    const void* ins[] = {c.data(), b.data()};
    void* outs[] = {out.data()};
    op->kernels[static_cast<int>(DType::kFloat32)](n, outs, ins, nullptr);
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], reference(c[i], b[i])) << op->name << " " << c[i] << " " << b[i];
  }
  using Ref1 = bool (*)(float);
  const std::pair<const PointwiseOp*, Ref1> unary[] = {{&pw::isnan, [](float x) { return x != x; }},
                                                       {&pw::isinf, [](float x) { return std::isinf(x); }},
                                                       {&pw::isfinite, [](float x) { return std::isfinite(x); }},
                                                       {&pw::isposinf, [](float x) { return x == HUGE_VALF; }},
                                                       {&pw::isneginf, [](float x) { return x == -HUGE_VALF; }},
                                                       {&pw::signbit, [](float x) { return std::signbit(x); }},
                                                       {&pw::logical_not, [](float x) { return !x; }}};
  for (const auto& [op, reference] : unary) {
    std::vector<uint8_t> out(n);
    const void* ins[] = {a.data()};
    void* outs[] = {out.data()};
    op->kernels[static_cast<int>(DType::kFloat32)](n, outs, ins, nullptr);
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], reference(a[i])) << op->name << " " << a[i];
  }
}

TEST(Pointwise, IntegerEdges) {
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();
  using V = std::vector<int64_t>;
  EXPECT_EQ(run<int64_t>(pw::div_floor, {{kMin64, 7, -7, 7, -7, 0}, {-1, 2, 2, -2, -2, 5}}),
            (V{kMin64, 3, -4, -4, 3, 0}));
  EXPECT_EQ(run<int64_t>(pw::div_trunc, {{kMin64, 7, -7, 7, -7, 0}, {-1, 2, 2, -2, -2, 5}}),
            (V{kMin64, 3, -3, -3, 3, 0}));
  EXPECT_EQ(run<int64_t>(pw::remainder, {{kMin64, 7, -7, 7, -7}, {-1, 3, 3, -3, -3}}), (V{0, 1, 2, -2, -1}));
  EXPECT_EQ(run<int64_t>(pw::fmod, {{kMin64, 7, -7, 7, -7}, {-1, 3, 3, -3, -3}}), (V{0, 1, -1, 1, -1}));
  EXPECT_EQ(run<int64_t>(pw::add, {{kMax64, 1}, {1, 2}}, {int_param(1)}), (V{kMin64, 3}));
  EXPECT_EQ(run<int64_t>(pw::abs, {{kMin64, -5}}), (V{kMin64, 5}));
  EXPECT_EQ(run<int64_t>(pw::pow, {{2, -1, -1, 1, 3, 0, 7}, {10, -3, -2, -9, -1, 0, 0}}), (V{1024, -1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(run<int64_t>(pw::gcd, {{12, -18, 0, kMin64}, {18, 12, 0, 6}}), (V{6, 6, 0, 2}));
  EXPECT_EQ(run<int64_t>(pw::lcm, {{4, -4, 0}, {6, 6, 3}}), (V{12, 12, 0}));
  EXPECT_EQ(run<int64_t>(pw::bitwise_left_shift, {{1, 1, 1, -1}, {3, 64, -1, 63}}), (V{8, 0, 0, kMin64}));
  EXPECT_EQ(run<int64_t>(pw::bitwise_right_shift, {{-8, -8, 8, 8}, {1, 100, -1, 63}}), (V{-4, -1, 0, 0}));
  EXPECT_EQ(run<int64_t>(pw::clamp, {{-5, 5, 50}}, {int_param(0), int_param(10)}), (V{0, 5, 10}));
  EXPECT_EQ(run<uint8_t>(pw::add, {{250, 3}, {10, 4}}, {int_param(1)}), (std::vector<uint8_t>{4, 7}));
  EXPECT_EQ(run<uint8_t>(pw::sub, {{3, 3}, {10, 1}}, {int_param(1)}), (std::vector<uint8_t>{249, 2}));
  EXPECT_EQ(run<int8_t>(pw::div_floor, {{-128, -7}, {-1, 2}}), (std::vector<int8_t>{-128, -4}));
  EXPECT_EQ(run<uint8_t>(pw::bitwise_right_shift, {{200, 200}, {3, 8}}), (std::vector<uint8_t>{25, 0}));
}

TEST(Pointwise, IntegerDivisionByZeroIsRefusedBeforehand) {
  int32_t divisor[6] = {1, 2, 0, 3, 4, 5};
  const int64_t shape[1] = {6}, dense[1] = {4}, shape2[1] = {3}, every_other[1] = {8}, shape_big[2] = {1000, 2},
                broadcast[2] = {0, 4};
  EXPECT_THROW(cpu::check_integer_divisor(shape, {divisor, DType::kInt32, dense}), Error);
  EXPECT_THROW(cpu::check_integer_divisor(shape2, {divisor, DType::kInt32, every_other}), Error);
  EXPECT_NO_THROW(cpu::check_integer_divisor(shape2, {divisor + 1, DType::kInt32, every_other}));
  EXPECT_NO_THROW(cpu::check_integer_divisor(shape_big, {divisor, DType::kInt32, broadcast}));
  EXPECT_NO_THROW(cpu::check_integer_divisor(shape, {divisor, DType::kFloat32, dense}));
  EXPECT_EQ(run<int32_t>(pw::div_trunc, {{1, 2}, {0, 1}})[1], 2);  // and the kernel itself does not trap
  EXPECT_EQ(run<int32_t>(pw::remainder, {{1, 5}, {0, 3}})[1], 2);
}

TEST(Pointwise, FloorDivisionOfFloats) {
  const std::vector<double> a = {7, -7, 7, -7, 0.0, -0.0, kInf, 5, -5, 1, 0, kNan},
                            b = {2, 2, -2, -2, 3, 3, 2, kInf, kInf, 0, 0, 1};
  const std::vector<double> want = {3, -4, -4, 3, 0.0, -0.0, kNan, 0, -1, kInf, kNan, kNan};
  const auto got = run<double>(pw::div_floor, {a, b});
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << a[i] << " // " << b[i];
      continue;
    }
    EXPECT_EQ(got[i], want[i]) << a[i] << " // " << b[i];
    EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << a[i] << " // " << b[i];
  }
}

TEST(Pointwise, BoolArithmeticIsLogic) {
  const uint8_t a[4] = {0, 0, 1, 1}, b[4] = {0, 1, 0, 1};
  uint8_t out[4];
  const void* ins[] = {a, b};
  void* outs[] = {out};
  const KernelParam one = int_param(1);
  const int kBool = static_cast<int>(DType::kBool);
  pw::add.kernels[kBool](4, outs, ins, &one);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{0, 1, 1, 1}));
  pw::mul.kernels[kBool](4, outs, ins, nullptr);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{0, 0, 0, 1}));
  pw::maximum.kernels[kBool](4, outs, ins, nullptr);
  EXPECT_EQ(std::vector<uint8_t>(out, out + 4), (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST(Pointwise, ComplexFormulas) {
  using C = std::complex<float>;
  const std::vector<C> a = {{1, 2}, {-3, 0.5f}, {0, 0}, {2, -1}}, b = {{0.5f, -1}, {2, 2}, {1, 1}, {-1, 3}};
  const auto product = run<C>(pw::mul, {a, b}), quotient = run<C>(pw::div, {a, b});
  const auto size = run<C, float>(pw::abs, {a}), angle = run<C, float>(pw::angle, {a});
  const auto direction = run<C>(pw::sgn, {a}), derivative = run<C>(pw::sigmoid_backward, {a, b});
  const auto conj = run<C>(pw::conj_physical, {a});
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LT(std::abs(product[i] - a[i] * b[i]), 1e-6f);
    EXPECT_LT(std::abs(quotient[i] - a[i] / b[i]), 1e-6f);
    EXPECT_FLOAT_EQ(size[i], std::abs(a[i]));
    EXPECT_FLOAT_EQ(angle[i], std::arg(a[i]));
    EXPECT_LT(std::abs(direction[i] - (a[i] == C(0) ? C(0) : a[i] / std::abs(a[i]))), 1e-6f);
    EXPECT_LT(std::abs(derivative[i] - a[i] * std::conj((C(1) - b[i]) * b[i])), 1e-5f);
    EXPECT_EQ(conj[i], std::conj(a[i]));
  }
}

TEST(Pointwise, HalfFormatsRoundOnce) {
  const auto fa = samples<float>(999, 5), fb = samples<float>(999, 6);
  std::vector<Half> a(fa.begin(), fa.end()), b(fb.begin(), fb.end());
  std::vector<BFloat16> c(fa.begin(), fa.end());
  const auto sum = run<Half>(pw::add, {a, b}, {real_param(1)});
  const auto root = run<BFloat16>(pw::exp, {c});
  for (size_t i = 0; i < a.size(); ++i) {
    const Half want(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    if (!std::isnan(static_cast<float>(want))) { EXPECT_EQ(sum[i].bits, want.bits); }
    const float e = std::exp(static_cast<float>(c[i]));
    if (std::isinf(e)) {
      EXPECT_EQ(static_cast<float>(root[i]), e);
    } else if (!std::isnan(e)) {
      EXPECT_NEAR(root[i], static_cast<float>(BFloat16(e)), e * 0.008) << static_cast<float>(c[i]);
    }
  }
  Half one(1.0f), two(2.0f);
  EXPECT_EQ(run<Half>(pw::nextafter, {{one}, {two}})[0].bits, one.bits + 1);
}

TEST(Pointwise, KernelsOfADtype) {
  EXPECT_EQ(kernel_dtype(pw::exp, DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(kernel_dtype(pw::exp, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(kernel_dtype(pw::add, DType::kComplex32), DType::kComplex64);
  EXPECT_EQ(kernel_dtype(pw::nextafter, DType::kFloat16), DType::kFloat16);
  EXPECT_EQ(kernel_dtype(pw::exp, DType::kInt32), std::nullopt);  // promoted by those who know of defaults
  EXPECT_EQ(kernel_dtype(pw::lt, DType::kComplex64), std::nullopt);
  EXPECT_EQ(kernel_dtype(pw::exp, DType::kFloat8_e4m3fn), std::nullopt);
  EXPECT_EQ(result_dtype(pw::eq, DType::kComplex64), DType::kBool);
  EXPECT_EQ(result_dtype(pw::abs, DType::kComplex32), DType::kFloat16);
  EXPECT_EQ(result_dtype(pw::abs, DType::kInt8), DType::kInt8);
  EXPECT_EQ(result_dtype(pw::exp, DType::kBFloat16), DType::kBFloat16);
}

// ---- The engine: layouts ----

struct Layout {
  std::vector<int64_t> shape;
  std::vector<std::vector<int64_t>> strides;  // elements; out, a, b
};

TEST(Pointwise, AnyLayoutGivesTheSameAsAnIndexLoop) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    const int nd = static_cast<int>(rng() % 5);
    std::vector<int64_t> shape(nd);
    for (auto& s : shape) s = rng() % 8 == 0 ? 1 : 1 + rng() % (nd <= 2 ? 90 : 7);
    if (nd > 0 && round % 40 == 0) shape[0] = 0;
    int64_t numel = 1;
    for (const int64_t s : shape) numel *= s;
    // A random permutation of dense strides with a gap, or broadcast (inputs only).
    const auto random_strides = [&](bool may_broadcast) {
      std::vector<int> order(nd);
      for (int i = 0; i < nd; ++i) order[i] = i;
      if (rng() % 2) std::shuffle(order.begin(), order.end(), rng);
      std::vector<int64_t> strides(nd);
      int64_t step = rng() % 4 == 0 ? 2 : 1;
      for (int i = nd - 1; i >= 0; --i) {
        const int d = order[i];
        if (may_broadcast && rng() % 4 == 0) {
          strides[d] = 0;
          continue;
        }
        strides[d] = step;
        step *= std::max<int64_t>(shape[d], 1) + (rng() % 5 == 0 ? 1 : 0);
      }
      return std::make_pair(strides, step);
    };
    const auto [so, room_o] = random_strides(false);
    const auto [sa, room_a] = random_strides(true);
    const auto [sb, room_b] = random_strides(true);
    std::vector<float> out(room_o + 1, -77.0f), a(room_a);
    std::vector<int16_t> b(room_b);  // another dtype: converted on the way
    for (auto& v : a) v = static_cast<float>(rng() % 1000);
    for (auto& v : b) v = static_cast<int16_t>(rng() % 1000);
    std::vector<int64_t> bo(nd), ba(nd), bb(nd);
    for (int d = 0; d < nd; ++d) {
      bo[d] = so[d] * 4;
      ba[d] = sa[d] * 4;
      bb[d] = sb[d] * 2;
    }
    const cpu::Operand o{out.data(), DType::kFloat32, bo.data()};
    const cpu::Operand in[2] = {{a.data(), DType::kFloat32, ba.data()}, {b.data(), DType::kInt16, bb.data()}};
    const KernelParam one = real_param(1);
    cpu::run_pointwise(pw::add, DType::kFloat32, shape, {&o, 1}, in, &one);
    std::vector<float> want(out.size(), -77.0f);
    for (int64_t i = 0; i < numel; ++i) {
      int64_t rest = i, io = 0, ia = 0, ib = 0;
      for (int d = nd - 1; d >= 0; --d) {
        const int64_t at = rest % shape[d];
        rest /= shape[d];
        io += at * so[d];
        ia += at * sa[d];
        ib += at * sb[d];
      }
      want[io] = a[ia] + b[ib];
    }
    ASSERT_EQ(out, want) << "round " << round;
  }
}

TEST(Pointwise, AnInputMayBeTheOutput) {
  std::vector<float> x = samples<float>(100000, 9);
  std::vector<float> want = x;
  for (auto& v : want) v = v + 0.5f * v;
  const int64_t shape[2] = {250, 400}, dense[2] = {1600, 4}, turned[2] = {4, 1000};
  const KernelParam half = real_param(0.5);
  for (const int64_t* strides : {dense, turned}) {
    std::vector<float> y = x;
    const cpu::Operand o{y.data(), DType::kFloat32, strides}, in[2] = {o, o};
    cpu::run_pointwise(pw::add, DType::kFloat32, shape, {&o, 1}, in, &half);
    for (size_t i = 0; i < y.size(); ++i) {
      if (!std::isnan(want[i])) { ASSERT_EQ(y[i], want[i]); }
    }
  }
}

TEST(Pointwise, SameBitsAtAnyNumberOfThreads) {
  const auto a = samples<float>(200003, 11), b = samples<float>(200003, 12);
  std::vector<std::vector<float>> results;
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    results.push_back(run<float>(pw::atan2, {a, b}));
    const auto y = run<float>(pw::erf, {a});
    results.back().insert(results.back().end(), y.begin(), y.end());
  }
  set_num_threads(before);
  EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), results[0].size() * 4), 0);
  EXPECT_EQ(std::memcmp(results[0].data(), results[2].data(), results[0].size() * 4), 0);
}

TEST(Pointwise, ShortCallsEqualLongOnes) {  // the masked tails
  const auto a = samples<float>(67, 21);
  for (const PointwiseOp* op : {&pw::exp, &pw::sigmoid, &pw::tanh, &pw::erf}) {
    const auto whole = run<float>(*op, {a});
    for (int n = 1; n < 40; ++n) {
      const std::vector<float> part(a.begin(), a.begin() + n);
      const auto got = run<float>(*op, {part});
      EXPECT_EQ(std::memcmp(got.data(), whole.data(), n * 4), 0) << op->name << " " << n;
    }
  }
}

// Calls of middle size take another width of vectors than short ones: the same bits, for every rest at the end.
template <class T>
void expect_long_calls_equal_short_ones() {
  const auto a = samples<T>(20000, 22), b = samples<T>(20000, 23);
  for (const auto& [op, params] :
       std::initializer_list<std::pair<const PointwiseOp*, std::vector<KernelParam>>>{{&pw::add, {real_param(0.3)}},
                                                                                      {&pw::sub, {real_param(0.3)}},
                                                                                      {&pw::mul, {}},
                                                                                      {&pw::maximum, {}},
                                                                                      {&pw::fmin, {}},
                                                                                      {&pw::div, {}}}) {
    std::vector<T> pieces;
    for (int i = 0; i < 20000; i += 50) {
      const auto piece =
          run<T>(*op, {{a.begin() + i, a.begin() + i + 50}, {b.begin() + i, b.begin() + i + 50}}, params);
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    for (int n = 20000; n > 19960; --n) {
      const auto got = run<T>(*op, {{a.begin(), a.begin() + n}, {b.begin(), b.begin() + n}}, params);
      EXPECT_EQ(std::memcmp(got.data(), pieces.data(), static_cast<size_t>(n) * sizeof(T)), 0) << op->name << " " << n;
    }
  }
}
TEST(Pointwise, LongCallsEqualShortOnes) {
  expect_long_calls_equal_short_ones<float>();
  expect_long_calls_equal_short_ones<double>();
}

TEST(Pointwise, LargeResultsPastTheCaches) {  // aligned or not, in place or not, converted or not
  const int64_t n = 3000007;
  std::vector<float> a(n + 16), b(n + 16), out(n + 32);
  for (int64_t i = 0; i < n + 16; ++i) a[i] = static_cast<float>(i % 1000), b[i] = static_cast<float>(i % 77);
  const KernelParam alpha = real_param(1);
  const int64_t stride = 4;
  float* const aligned = out.data() + (64 - reinterpret_cast<uintptr_t>(out.data()) % 64) % 64 / 4;
  for (float* to : {aligned, aligned + 1, aligned + 15}) {
    std::fill(out.begin(), out.end(), -1.0f);
    const cpu::Operand o{to, DType::kFloat32, &stride},
        ins[] = {{a.data(), DType::kFloat32, &stride}, {b.data(), DType::kFloat32, &stride}};
    cpu::run_pointwise(pw::add, DType::kFloat32, {&n, 1}, {&o, 1}, ins, &alpha);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], a[i] + b[i]);
    EXPECT_EQ(to[n], -1);
  }
  std::vector<BFloat16> narrow(n + 1);
  const int64_t narrow_stride = 2;
  const cpu::Operand o{narrow.data(), DType::kBFloat16, &narrow_stride},
      ins[] = {{a.data(), DType::kFloat32, &stride}, {b.data(), DType::kFloat32, &stride}};
  cpu::run_pointwise(pw::add, DType::kFloat32, {&n, 1}, {&o, 1}, ins, &alpha);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(narrow[i].bits, BFloat16(a[i] + b[i]).bits);
  const cpu::Operand same{a.data(), DType::kFloat32, &stride}, own[] = {same, {b.data(), DType::kFloat32, &stride}};
  cpu::run_pointwise(pw::add, DType::kFloat32, {&n, 1}, {&same, 1}, own, &alpha);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(a[i], static_cast<float>(i % 1000) + b[i]);
}

// Every way into the engine at a size whose results go past the caches: rows that begin anywhere in a line, masks,
// 16-bit types, inputs that lie transposed.
TEST(Pointwise, LargeResultsOfEveryLayout) {
  const int64_t rows = 1733, cols = 2411, n = rows * cols;
  const int64_t shape[2] = {rows, cols};
  std::vector<float> a(n), b(n), out(n + 16);
  for (int64_t i = 0; i < n; ++i) a[i] = static_cast<float>(i % 1000), b[i] = static_cast<float>(i % 77);
  const auto strides = [](int64_t outer, int64_t inner, int64_t size) {
    return std::array<int64_t, 2>{outer * size, inner * size};
  };
  const auto dense4 = strides(cols, 1, 4), dense2 = strides(cols, 1, 2), dense1 = strides(cols, 1, 1),
             row = strides(0, 1, 4), column = strides(1, 0, 4), turned = strides(1, rows, 4);
  const KernelParam one = real_param(1);
  float* const to = out.data() + 3;
  const cpu::Operand o{to, DType::kFloat32, dense4.data()}, x{a.data(), DType::kFloat32, dense4.data()};
  for (const auto& other : {row, column, turned}) {
    const cpu::Operand ins[2] = {x, {b.data(), DType::kFloat32, other.data()}};
    std::fill(out.begin(), out.end(), -1.0f);
    cpu::run_pointwise(pw::add, DType::kFloat32, shape, {&o, 1}, ins, &one);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], a[i] + b[(i / cols * other[0] + i % cols * other[1]) / 4]) << i;
    EXPECT_EQ(to[n], -1);
    EXPECT_EQ(to[-1], -1);
  }
  std::vector<uint8_t> mask(n);
  const cpu::Operand m{mask.data(), DType::kBool, dense1.data()}, y{b.data(), DType::kFloat32, dense4.data()},
      both[2] = {x, y};
  cpu::run_pointwise(pw::gt, DType::kFloat32, shape, {&m, 1}, both, nullptr);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(mask[i], a[i] > b[i]) << i;
  const cpu::Operand three[3] = {m, x, y}, two[2] = {x, m};
  cpu::run_pointwise(pw::where, DType::kFloat32, shape, {&o, 1}, three, nullptr);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], std::max(a[i], b[i])) << i;
  cpu::run_pointwise(pw::masked_fill, DType::kFloat32, shape, {&o, 1}, two, &one);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], a[i] > b[i] ? 1 : a[i]) << i;
  for (const DType t : {DType::kBFloat16, DType::kFloat16}) {  // large enough with one input of four bytes
    std::vector<uint16_t> narrow(n + 1, 7), result(n + 1, 7);
    const cpu::Operand z{narrow.data() + 1, t, dense2.data()}, r{result.data() + 1, t, dense2.data()},
        mixed[2] = {z, x};
    cpu::copy_strided(shape, z, y);
    cpu::run_pointwise(pw::add, DType::kFloat32, shape, {&r, 1}, mixed, &one);
    for (int64_t i = 0; i < n; ++i) {
      const float sum = a[i] + b[i];
      ASSERT_EQ(result[i + 1], t == DType::kFloat16 ? Half(sum).bits : BFloat16(sum).bits) << i;
    }
    EXPECT_EQ(result[0], 7);
  }
}

TEST(Pointwise, WhereOfEveryElementSize) {
  std::mt19937 random(3);
  for (const DType t : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kComplex128}) {
    const int64_t size = item_size(t);
    for (int64_t n = 1; n < 140; n = n < 20 ? n + 1 : n + 13) {
      std::vector<uint8_t> mask(n);
      std::vector<char> a(n * size), b(n * size), out((n + 1) * size, 'x');
      for (auto& v : mask)
        v = random() % 3 == 0 ? 0 : static_cast<uint8_t>(1 + random() % 255);  // whatever is not 0 is true
      for (auto& v : a) v = static_cast<char>(random());
      for (auto& v : b) v = static_cast<char>(random());
      const int64_t bytes = 1;
      const cpu::Operand o{out.data(), t, &size},
          ins[3] = {{mask.data(), DType::kBool, &bytes}, {a.data(), t, &size}, {b.data(), t, &size}};
      cpu::run_pointwise(pw::where, t, {&n, 1}, {&o, 1}, ins, nullptr);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(std::memcmp(&out[i * size], &(mask[i] ? a : b)[i * size], size), 0)
            << name_of(t) << " " << n << " " << i;
      EXPECT_EQ(out[n * size], 'x');
    }
  }
}

TEST(Pointwise, WhereAndMaskedFillReadBoolConditions) {
  const uint8_t condition[5] = {1, 0, 1, 0, 0};
  const float a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50};
  float out[5];
  const int64_t shape[1] = {5}, bytes[1] = {1}, floats[1] = {4};
  const cpu::Operand o{out, DType::kFloat32, floats}, c{const_cast<uint8_t*>(condition), DType::kBool, bytes};
  const cpu::Operand x{const_cast<float*>(a), DType::kFloat32, floats},
      y{const_cast<float*>(b), DType::kFloat32, floats};
  const cpu::Operand three[3] = {c, x, y}, two[2] = {x, c};
  cpu::run_pointwise(pw::where, DType::kFloat32, shape, {&o, 1}, three, nullptr);
  EXPECT_EQ(std::vector<float>(out, out + 5), (std::vector<float>{1, 20, 3, 40, 50}));
  const KernelParam value = real_param(-1);
  cpu::run_pointwise(pw::masked_fill, DType::kFloat32, shape, {&o, 1}, two, &value);
  EXPECT_EQ(std::vector<float>(out, out + 5), (std::vector<float>{-1, 2, -1, 4, 5}));
}

TEST(Pointwise, ClampByTensors) {
  using V = std::vector<float>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto got = run<float>(pw::clamp_tensor, {{5, -5, 1, nan, 1, 1}, {0, 0, 3, 0, nan, 0}, {2, 2, 2, 2, 2, nan}});
  EXPECT_EQ(V(got.begin(), got.begin() + 3), (V{2, 0, 2}));  // max wins where the bounds cross
  for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  EXPECT_EQ(run<int32_t>(pw::clamp_min_tensor, {{1, 5}, {3, 3}}), (std::vector<int32_t>{3, 5}));
  EXPECT_EQ(run<int32_t>(pw::clamp_max_tensor, {{1, 5}, {3, 3}}), (std::vector<int32_t>{1, 3}));
}

TEST(Pointwise, SpecialFunctions) {
  const std::vector<double> x = {0.1, -0.5, 0.9, 0.999999, 0};
  const auto inverse = run<double>(pw::erfinv, {x});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(std::erf(inverse[i]), x[i], 1e-15);
  const auto psi = run<double>(pw::digamma, {{1, 2, 0.5, -1.5, 0.0, -2}});
  EXPECT_NEAR(psi[0], -0.57721566490153286, 1e-14);
  EXPECT_NEAR(psi[1], 0.42278433509846714, 1e-14);
  EXPECT_NEAR(psi[2], -1.9635100260214235, 1e-14);
  EXPECT_NEAR(psi[3], 0.70315664064524319, 1e-13);
  EXPECT_EQ(psi[4], -kInf);
  EXPECT_TRUE(std::isnan(psi[5]));
  const auto bessel = run<double>(pw::i0, {{0, 1, 10, 100}});
  EXPECT_EQ(bessel[0], 1);
  EXPECT_NEAR(bessel[1], 1.2660658777520084, 1e-15);
  EXPECT_NEAR(bessel[2] / 2815.7166284662544, 1, 1e-14);
  EXPECT_NEAR(bessel[3] / 1.0737517071310738e42, 1, 1e-13);
  const auto logit = run<double>(pw::logit, {{0.25, 0.01, 1.5}}, {real_param(0.1)});
  EXPECT_NEAR(logit[0], std::log(1.0 / 3), 1e-15);
  EXPECT_NEAR(logit[1], std::log(1.0 / 9), 1e-15);
  EXPECT_NEAR(logit[2], std::log(9.0), 1e-14);
  EXPECT_TRUE(std::isnan(run<double>(pw::logit, {{1.5}}, {real_param(kNan)})[0]));
}

}  // namespace
}  // namespace tessera
