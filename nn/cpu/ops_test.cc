// The elementwise ops of neural networks against functions of double.
#include "nn/cpu/ops.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise_testing.h"

namespace tessera {
namespace {

using namespace pointwise_testing;

double relu(double x) { return x < 0 ? 0 : x; }

std::vector<Case> float_cases() {
  using std::abs;
  const auto p = real_param;
  using D = const double*;
  return {
      {"threshold", &pw::threshold, [](D x) { return x[0] <= 0.5 ? 7 : x[0]; }, 0, {p(0.5), p(7)}},
      {"relu", &pw::relu, [](D x) { return relu(x[0]); }, 0},
      {"relu6", &pw::relu6, [](D x) { return clamp(x[0], 0, 6); }, 0},
      {"leaky_relu", &pw::leaky_relu, [](D x) { return x[0] > 0 ? x[0] : x[0] * 0.125; }, 0.51, {p(0.125)}},
      {"elu",
       &pw::elu,
       [](D x) { return x[0] > 0 ? 2 * x[0] : 3 * std::expm1(0.5 * x[0]); },
       3,
       {p(1.5), p(2), p(0.5)}},
      {"celu", &pw::celu, [](D x) { return x[0] > 0 ? x[0] : 2 * std::expm1(x[0] / 2); }, 3, {p(2)}},
      {"gelu_erf",
       &pw::gelu_erf,
       [](D x) { return x[0] == -kInf ? kNan : x[0] * 0.5 * (1 + std::erf(x[0] * M_SQRT1_2)); },
       4,
       {},
       false,
       1e-6,
       false,
       true},
      {"silu", &pw::silu, [](D x) { return x[0] / (1 + std::exp(-x[0])); }, 4, {}, false, 1e-36},
      {"mish", &pw::mish, [](D x) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); }, 5, {}, false, 1e-36},
      {"softplus",
       &pw::softplus,
       [](D x) { return 2 * x[0] > 20 ? x[0] : std::log1p(std::exp(2 * x[0])) / 2; },
       3,
       {p(2), p(20)}},
      {"hardtanh", &pw::hardtanh, [](D x) { return clamp(x[0], -1, 1); }, 0, {p(-1), p(1)}},
      {"hardsigmoid", &pw::hardsigmoid, [](D x) { return clamp(x[0] + 3, 0, 6) / 6; }, 2, {}, false, 1e-6},
      {"log_sigmoid", &pw::log_sigmoid, [](D x) { return std::min(x[0], 0.0) - std::log1p(std::exp(-abs(x[0]))); }, 3},
      {"hardshrink", &pw::hardshrink, [](D x) { return abs(x[0]) <= 0.5 ? 0 : x[0]; }, 0, {p(0.5)}},
      {"softshrink",
       &pw::softshrink,
       [](D x) {
         return x[0] > 0.5 ? x[0] - 0.5 : x[0] < -0.5 ? x[0] + 0.5 : x[0] != x[0] ? x[0] : 0;
       },
       0.51,
       {p(0.5)}},
      {"prelu", &pw::prelu, [](D x) { return x[0] > 0 ? x[0] : x[0] * x[1]; }, 0.51},
      {"mse", &pw::mse, [](D x) { return (x[0] - x[1]) * (x[0] - x[1]); }, 2},
      {"bce",
       &pw::bce,
       [](D x) { return (x[1] - 1) * std::max(std::log1p(-x[0]), -100.0) - x[1] * std::max(std::log(x[0]), -100.0); },
       4,
       {},
       true,
       0,
       true},
      {"bce_with_logits",
       &pw::bce_with_logits,
       [](D x) { return (1 - x[1]) * x[0] + std::log1p(std::exp(-x[0])); },
       4,
       {},
       true,
       1e-6},
      {"leaky_relu_backward",
       &pw::leaky_relu_backward,
       [](D x) { return x[1] > 0 ? x[0] : 0.125 * x[0]; },
       0.51,
       {p(0.125)}},
      {"threshold_backward", &pw::threshold_backward, [](D x) { return x[1] <= 0 ? 0 : x[0]; }, 0, {p(0)}},
      {"hardtanh_backward",
       &pw::hardtanh_backward,
       [](D x) { return x[1] > -1 && x[1] < 1 ? x[0] : 0; },
       0,
       {p(-1), p(1)}},
      {"mse_backward", &pw::mse_backward, [](D x) { return 2 * x[0] * (x[1] - x[2]); }, 3},
  };
}

TEST(Ops, FloatOpsAgreeWithTheScalarLibrary) { expect_float_cases(float_cases()); }
TEST(Ops, DoubleOpsAgreeWithTheScalarLibrary) { expect_double_cases(float_cases()); }
TEST(Ops, FunctionsKeepTheirBoundsOverAllFloats) {
  expect_bounds({{"gelu", &pw::gelu_erf, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }, 8, 3}});
}

TEST(Ops, MishFarBelowZero) {
  for (const double x : {-39.5, -40.5, -300.0, -700.0})
    EXPECT_NEAR(run<double>(pw::mish, {{x}})[0] / (x * std::exp(x)), 1, 4e-16) << x;
  for (const float x : {-39.5f, -40.5f, -80.0f})
    EXPECT_NEAR(run<float>(pw::mish, {{x}})[0] / (x * std::exp(static_cast<double>(x))), 1, 7e-8) << x;
  const auto expect_ends = [](auto zero) {
    using T = decltype(zero);
    const T inf = std::numeric_limits<T>::infinity();
    const std::vector<T> y =
        run<T>(pw::mish, {{T(-1e5), T(1e5), inf, -inf, std::numeric_limits<T>::quiet_NaN(), -zero}});
    EXPECT_TRUE(y[0] == 0 && std::signbit(y[0])) << y[0];
    EXPECT_EQ(y[1], T(1e5));
    EXPECT_EQ(y[2], inf);
    EXPECT_TRUE(std::isnan(y[3])) << y[3];
    EXPECT_TRUE(std::isnan(y[4])) << y[4];
    EXPECT_TRUE(y[5] == 0 && std::signbit(y[5])) << y[5];
  };
  expect_ends(0.0);
  expect_ends(0.0f);
}

TEST(Ops, SameBitsAtAnyNumberOfThreads) {
  const auto a = samples<float>(200003, 11);
  const int before = num_threads();
  set_num_threads(1);
  const auto alone = run<float>(pw::gelu_erf, {a});
  for (const int threads : {2, 5}) {
    set_num_threads(threads);
    const auto y = run<float>(pw::gelu_erf, {a});
    EXPECT_EQ(std::memcmp(alone.data(), y.data(), alone.size() * sizeof(float)), 0) << threads;
  }
  set_num_threads(before);
}

TEST(Ops, ShortCallsEqualLongOnes) {  // the masked tails
  const auto a = samples<float>(67, 21);
  for (const PointwiseOp* op : {&pw::relu, &pw::gelu_erf}) {
    const auto whole = run<float>(*op, {a});
    for (int n = 1; n < 40; ++n) {
      const auto got = run<float>(*op, {std::vector<float>(a.begin(), a.begin() + n)});
      EXPECT_EQ(std::memcmp(got.data(), whole.data(), n * sizeof(float)), 0) << op->name << " " << n;
    }
  }
}

}  // namespace
}  // namespace tessera
