// Mathematical functions on the device: how far they are from the true values, and that they agree with the CPU's at
// the edges.
#include <algorithm>
#include <functional>
#include <limits>
#include <numbers>

#include "tensor/cuda/pointwise/pointwise_math_testing.h"

namespace tessera::cuda {
namespace {

using namespace math_testing;
class PointwiseMathTest : public testing::DeviceTest {};

// ---- References in long double ----

Long erfinv(Long y) {
  // Newton's method from a crude start; beyond 1/2 on the tail, so that 1 - |y| is exact.
  const Long a = std::fabs(y);
  Long x = a < 0.5 ? a : std::sqrt(-std::log(1 - a)) * Long(0.8);
  for (int i = 0; i < 60; ++i)
    x += (a < 0.5 ? a - std::erf(x) : std::erfc(x) - (1 - a)) * std::exp(x * x) * std::sqrt(std::numbers::pi_v<Long>) /
         2;
  return std::copysign(x, y);
}
Long digamma(Long x) {
  if (x < 0)
    return digamma(1 - x) - std::numbers::pi_v<Long> / std::tan(std::numbers::pi_v<Long> * (x - std::nearbyint(x)));
  Long r = 0;
  for (; x < 40; ++x) r -= 1 / x;
  const Long z = 1 / (x * x);
  return r + std::log(x) - 1 / (2 * x) -
         z * (Long(1) / 12 - z * (Long(1) / 120 - z * (Long(1) / 252 - z * (Long(1) / 240 - z / 132))));
}
// The sum over k of (x + k)^-2, the tail of which is an integral with Euler's corrections.
Long trigamma(Long x) {
  if (x < 0) {
    const Long s = std::sin(std::numbers::pi_v<Long> * (x - std::nearbyint(x)));
    return std::numbers::pi_v<Long> * std::numbers::pi_v<Long> / (s * s) - trigamma(1 - x);
  }
  Long r = 0;
  for (; x < 40; ++x) r += 1 / (x * x);
  const Long z = 1 / (x * x);
  return r + 1 / x + z / 2 + z / x * (Long(1) / 6 - z * (Long(1) / 30 - z * (Long(1) / 42 - z / 30)));
}

std::vector<Case> elementary_cases() {
  using X = const Long*;
  return {
      {"square", &pw::square, [](X x) { return x[0] * x[0]; }, -1e4, 1e4, 0.51, 0.51},
      {"reciprocal", &pw::reciprocal, [](X x) { return 1 / x[0]; }, -1e4, 1e4, 0.51, 0.51},
      {"sqrt", &pw::sqrt, [](X x) { return std::sqrt(x[0]); }, 0, 1e6, 0.51, 0.51},
      {"rsqrt", &pw::rsqrt, [](X x) { return 1 / std::sqrt(x[0]); }, 1e-6, 1e6, 1.6, 1.6},
      {"exp", &pw::exp, [](X x) { return std::exp(x[0]); }, -80, 80, 2.5, 2.5},
      {"exp2", &pw::exp2, [](X x) { return std::exp2(x[0]); }, -120, 120, 2.5, 2.5},
      {"expm1", &pw::expm1, [](X x) { return std::expm1(x[0]); }, -10, 10, 2.5, 2.5},
      {"log", &pw::log, [](X x) { return std::log(x[0]); }, 0, 50, 2, 2},
      {"log1p", &pw::log1p, [](X x) { return std::log1p(x[0]); }, -0.999, 20, 2.5, 2.5},
      {"log2", &pw::log2, [](X x) { return std::log2(x[0]); }, 0, 50, 2, 2},
      {"log10", &pw::log10, [](X x) { return std::log10(x[0]); }, 0, 50, 3, 2.5},
      {"sin", &pw::sin, [](X x) { return std::sin(x[0]); }, -1e5, 1e5, 2.5, 2.5},
      {"cos", &pw::cos, [](X x) { return std::cos(x[0]); }, -1e5, 1e5, 2.5, 2.5},
      {"tan", &pw::tan, [](X x) { return std::tan(x[0]); }, -100, 100, 4.5, 2.5},
      {"asin", &pw::asin, [](X x) { return std::asin(x[0]); }, -1, 1, 3, 2.5},
      {"acos", &pw::acos, [](X x) { return std::acos(x[0]); }, -1, 1, 3, 2.5},
      {"atan", &pw::atan, [](X x) { return std::atan(x[0]); }, -50, 50, 2.5, 2.5},
      {"sinh", &pw::sinh, [](X x) { return std::sinh(x[0]); }, -80, 80, 3.5, 3},
      {"cosh", &pw::cosh, [](X x) { return std::cosh(x[0]); }, -80, 80, 2.5, 2.5},
      {"tanh", &pw::tanh, [](X x) { return std::tanh(x[0]); }, -10, 10, 2.5, 3},
      {"asinh", &pw::asinh, [](X x) { return std::asinh(x[0]); }, -1e3, 1e3, 3.5, 3.5},
      {"acosh", &pw::acosh, [](X x) { return std::acosh(x[0]); }, 1, 1e3, 4.5, 3.5},
      {"atanh", &pw::atanh, [](X x) { return std::atanh(x[0]); }, -1, 1, 3.5, 3},
      {"atan2", &pw::atan2, [](X x) { return std::atan2(x[0], x[1]); }, -10, 10, 3.5, 2.5},
      {"hypot", &pw::hypot, [](X x) { return std::hypot(x[0], x[1]); }, -10, 10, 3.5, 2.5},
  };
}
std::vector<Case> special_cases() {
  using X = const Long*;
  const auto p = real_param;
  return {
      {"sigmoid", &pw::sigmoid, [](X x) { return logistic(x[0]); }, -40, 40, 6, 6},
      {"erf", &pw::erf, [](X x) { return std::erf(x[0]); }, -5, 5, 2.5, 2.5},
      {"erfc", &pw::erfc, [](X x) { return std::erfc(x[0]); }, -5, 8, 4.5, 5.5},
      {"erfinv", &pw::erfinv, [](X x) { return erfinv(x[0]); }, -0.99999, 0.99999, 3, 6},
      {"logit", &pw::logit, [](X x) { return std::log(x[0] / (1 - x[0])); }, 0.01, 0.99, 6, 6, {p(kNan)}, 2},
      {"lgamma", &pw::lgamma, [](X x) { return std::lgamma(x[0]); }, 0.1, 100, 6.5, 4.5, {}, 4},
      {"digamma", &pw::digamma, [](X x) { return digamma(x[0]); }, 0.1, 60, 1, 12, {}, 12},
      {"digamma", &pw::digamma, [](X x) { return digamma(x[0]); }, -20, -0.1, 2, 20, {}, 200},
      {"polygamma", &pw::polygamma, [](X x) { return trigamma(x[0]); }, 0.1, 60, 1, 12, {p(1)}},
      {"polygamma", &pw::polygamma, [](X x) { return trigamma(x[0]); }, -5, -0.1, 2, 200, {p(1)}},
      {"sinc",
       &pw::sinc,
       [](X x) {
         return x[0] == 0 ? 1 : std::sin(x[0] * std::numbers::pi_v<Long>) / (x[0] * std::numbers::pi_v<Long>);
       },
       -0.9,
       0.9,
       4,
       4,
       {},
       2},
      {"entr", &pw::entr, [](X x) { return -x[0] * std::log(x[0]); }, 0, 5, 3, 3},
      {"i0", &pw::i0, [](X x) { return std::cyl_bessel_i(Long{0}, std::fabs(x[0])); }, -60, 60, 7, 20},
      {"i1", &pw::i1, [](X x) { return std::copysign(std::cyl_bessel_i(Long{1}, std::fabs(x[0])), x[0]); }, -60, 60, 7,
       20},
      {"xlogy", &pw::xlogy, [](X x) { return x[0] * std::log(x[1]); }, 0, 10, 3, 3},
      {"xlog1py", &pw::xlog1py, [](X x) { return x[0] * std::log1p(x[1]); }, 0, 10, 3, 3},
      {"logaddexp", &pw::logaddexp, [](X x) { return x[0] + softplus(x[1] - x[0]); }, -20, 20, 3, 3, {}, 2},
      {"logaddexp2",
       &pw::logaddexp2,
       [](X x) { return x[0] + std::log2(1 + std::exp2(x[1] - x[0])); },
       -20,
       20,
       3,
       3,
       {},
       2},
      {"sigmoid_backward", &pw::sigmoid_backward, [](X x) { return x[0] * (1 - x[1]) * x[1]; }, 0, 0.9, 3, 3, {}, 1},
      {"tanh_backward", &pw::tanh_backward, [](X x) { return x[0] * (1 - x[1] * x[1]); }, -0.7, 0.7, 3, 3, {}, 1},
      {"logit_backward",
       &pw::logit_backward,
       [](X x) { return x[0] / (x[1] * (1 - x[1])); },
       0.01,
       0.99,
       4,
       4,
       {p(kNan)},
       0},
  };
}

TEST_F(PointwiseMathTest, FloatsAreNearTheTrueValues) {
  check_accuracy<float>(elementary_cases(), &Case::float_ulps);
  check_accuracy<float>(special_cases(), &Case::float_ulps);
}
TEST_F(PointwiseMathTest, DoublesAreNearTheTrueValues) {
  check_accuracy<double>(elementary_cases(), &Case::double_ulps);
  check_accuracy<double>(special_cases(), &Case::double_ulps);
}

// ---- Edge values, against the CPU ----

const PointwiseOp* const kPlainOps[] = {&pw::square,
                                        &pw::reciprocal,
                                        &pw::sqrt,
                                        &pw::rsqrt,
                                        &pw::exp,
                                        &pw::exp2,
                                        &pw::expm1,
                                        &pw::log,
                                        &pw::log1p,
                                        &pw::log2,
                                        &pw::log10,
                                        &pw::sin,
                                        &pw::cos,
                                        &pw::tan,
                                        &pw::asin,
                                        &pw::acos,
                                        &pw::atan,
                                        &pw::sinh,
                                        &pw::cosh,
                                        &pw::tanh,
                                        &pw::asinh,
                                        &pw::acosh,
                                        &pw::atanh,
                                        &pw::sigmoid,
                                        &pw::erfc,
                                        &pw::erfinv,
                                        &pw::sinc,
                                        &pw::entr,
                                        &pw::i0,
                                        &pw::i1,
                                        &pw::atan2,
                                        &pw::hypot,
                                        &pw::xlogy,
                                        &pw::xlog1py,
                                        &pw::logaddexp,
                                        &pw::logaddexp2,
                                        &pw::sigmoid_backward,
                                        &pw::tanh_backward};

std::vector<Op> real_ops() {
  const auto p = real_param;
  std::vector<Op> all;
  for (const PointwiseOp* op : kPlainOps) all.push_back({op});
  for (const PointwiseOp* op : {&pw::erf, &pw::lgamma, &pw::digamma}) all.push_back({op, {}, 1});
  for (const PointwiseOp* op : {&pw::logit, &pw::logit_backward}) {
    all.push_back({op, {p(kNan)}});
    all.push_back({op, {p(0.125)}});
  }
  for (double n : {1.0, 2.0, 3.0}) all.push_back({&pw::polygamma, {p(n)}});
  return all;
}

TEST_F(PointwiseMathTest, FloatsAtTheEdgesAreAsOnTheCpu) { check_edges<float>(real_ops()); }
TEST_F(PointwiseMathTest, DoublesAtTheEdgesAreAsOnTheCpu) { check_edges<double>(real_ops()); }

TEST_F(PointwiseMathTest, ZerosKeepTheirSign) {
  for (const PointwiseOp* op : {&pw::sqrt, &pw::expm1, &pw::log1p, &pw::sin, &pw::tan, &pw::asin, &pw::atan, &pw::sinh,
                                &pw::tanh, &pw::asinh, &pw::atanh, &pw::erf, &pw::erfinv}) {
    const std::vector<float> got = run<float>(*op, {{0.0f, -0.0f}}, {});
    EXPECT_TRUE(got[0] == 0 && !std::signbit(got[0]) && got[1] == 0 && std::signbit(got[1])) << op->name;
  }
}

TEST_F(PointwiseMathTest, SubnormalNumbersAreNotFlushed) {
  const float tiny = 1e-42f;
  EXPECT_EQ(run<float>(pw::sin, {{tiny}}, {})[0], tiny);
  EXPECT_EQ(run<float>(pw::expm1, {{tiny}}, {})[0], tiny);
  EXPECT_GT(run<float>(pw::exp, {{-100.0f}}, {})[0], 0);
  EXPECT_NEAR(run<float>(pw::log, {{tiny}}, {})[0], std::log(static_cast<double>(tiny)), 1e-5);
}

template <class R>
void check_complex() {
  check_complex_functions<R>({{&pw::sqrt},
                              {&pw::exp},
                              {&pw::log},
                              {&pw::log2},
                              {&pw::log10},
                              {&pw::sin},
                              {&pw::cos},
                              {&pw::tan},
                              {&pw::asin},
                              {&pw::acos},
                              {&pw::atan},
                              {&pw::sinh},
                              {&pw::cosh},
                              {&pw::tanh},
                              {&pw::asinh},
                              {&pw::acosh},
                              {&pw::atanh}});
  check_complex_formulas<R>({{&pw::square},
                             {&pw::reciprocal},
                             {&pw::rsqrt},
                             {&pw::exp2},
                             {&pw::expm1},
                             {&pw::log1p},
                             {&pw::sinc},
                             {&pw::sigmoid}});
  check_complex_pairs<R>({{&pw::logaddexp}, {&pw::sigmoid_backward}, {&pw::tanh_backward}});
}
TEST_F(PointwiseMathTest, Complex64) { check_complex<float>(); }
TEST_F(PointwiseMathTest, Complex128) { check_complex<double>(); }

template <class T>
void check_integers() {
  expect_as_on_cpu<T>({&pw::square}, {integer_values<T>()}, [](T a, T b, size_t) { return a == b; });
}
TEST_F(PointwiseMathTest, Integers) {
  check_integers<uint8_t>();
  check_integers<int8_t>();
  check_integers<int16_t>();
  check_integers<int32_t>();
  check_integers<int64_t>();
}

TEST_F(PointwiseMathTest, HalvesRoundTheFloatResult) {
  check_halves<Half>({&pw::exp, &pw::tanh, &pw::lgamma});
  check_halves<BFloat16>({&pw::exp, &pw::tanh, &pw::lgamma});
}

}  // namespace
}  // namespace tessera::cuda
