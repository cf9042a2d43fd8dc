// Every elementwise op of neural networks on a device against the CPU's: all compute dtypes with values at the edges,
// and how far functions are from the true values.
#include "nn/cpu/ops.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "nn/cuda/pointwise_engines.h"
#include "tensor/cuda/pointwise/pointwise_math_testing.h"
#include "tensor/cuda/pointwise/pointwise_testing.h"

namespace tessera::cuda {
namespace {

// The engine learns the kernels of these ops.
const bool g_connected = [] {
  add_nn_pointwise_tables();
  return true;
}();

class PointwiseOps : public testing::DeviceTest {};

#define OP(name) #name, &pw::name
TEST_F(PointwiseOps, EveryOpAndDtypeAsOnTheCpu) {
  testing::compare_all({
      {OP(threshold), {0.5, 7}},
      {OP(relu)},
      {OP(relu6)},
      {OP(leaky_relu), {0.01}},
      {OP(elu), {1.5, 1.1, 0.9}, 8},
      {OP(celu), {1.5}, 8},
      {OP(selu), {}, 8},
      {OP(gelu_erf), {}, 16, 4},
      {OP(gelu_tanh), {}, 16, 4},
      {OP(silu), {}, 8},
      {OP(mish), {}, 16},
      {OP(softplus), {1.5, 20}, 16, 2},
      {OP(hardtanh), {-1, 2}},
      {OP(hardsigmoid), {}, 2},
      {OP(hardswish), {}, 4},
      {OP(log_sigmoid), {}, 8, 2},
      {OP(softshrink), {0.5}},
      {OP(hardshrink), {0.5}},
      {OP(prelu)},
      {OP(mse), {}, 2},
      {OP(smooth_l1), {0.5}, 4},
      {OP(huber), {0.5}, 4},
      {OP(bce), {}, 32, 4, true},
      {OP(bce_with_logits), {}, 32, 32},
      {OP(threshold_backward), {0.5}},
      {OP(leaky_relu_backward), {0.01}},
      {OP(elu_backward), {1.5, 1.1, 0.9}, 8},
      {OP(elu_backward_result), {1.5, 1.1, 0.9}, 8},
      {OP(gelu_backward_erf), {}, 32, 4},
      {OP(gelu_backward_tanh), {}, 256, 32},
      {OP(silu_backward), {}, 32, 4},
      {OP(mish_backward), {}, 32, 4},
      {OP(softplus_backward), {1.5, 20}, 16},
      {OP(hardtanh_backward), {-1, 2}},
      {OP(hardsigmoid_backward), {}, 2},
      {OP(hardswish_backward), {}, 4},
      {OP(log_sigmoid_backward), {}, 16},
      {OP(shrink_backward), {0.5}},
      {OP(mse_backward), {}, 4},
      {OP(smooth_l1_backward), {0.5}, 4},
      {OP(huber_backward), {0.5}, 4},
      {OP(bce_backward), {}, 32, 0, true},
  });
}
#undef OP

using namespace math_testing;

// ---- Functions: references in long double ----

Long normal_cdf(Long x) { return std::erfc(-x / std::numbers::sqrt2_v<Long>) / 2; }

// Of the approximation of gelu.
const Long kBeta = std::numbers::sqrt2_v<Long> * std::numbers::inv_sqrtpi_v<Long>;
Long tanh_inner(Long x) { return std::tanh(kBeta * (x + Long(0.044715) * x * x * x)); }

std::vector<Case> activation_cases() {
  using X = const Long*;
  const auto p = real_param;
  return {
      {"elu",
       &pw::elu,
       [](X x) { return x[0] > 0 ? 2 * x[0] : 3 * std::expm1(x[0] / 2); },
       -20,
       20,
       6,
       6,
       {p(1.5), p(2), p(0.5)}},
      {"celu", &pw::celu, [](X x) { return x[0] > 0 ? x[0] : 2 * std::expm1(x[0] / 2); }, -20, 20, 6, 6, {p(2)}},
      {"selu", &pw::selu,
       [](X x) {
         return Long(1.0507009873554804934) * (x[0] > 0 ? x[0] : Long(1.6732632423543772848) * std::expm1(x[0]));
       },
       -20, 20, 6, 6},
      {"gelu_erf", &pw::gelu_erf, [](X x) { return x[0] * normal_cdf(x[0]); }, -5, 5, 12, 40},
      {"gelu_tanh", &pw::gelu_tanh, [](X x) { return x[0] / 2 * (1 + tanh_inner(x[0])); }, -5, 5, 4, 4, {}, 4},
      {"silu", &pw::silu, [](X x) { return x[0] * logistic(x[0]); }, -40, 40, 6, 6},
      {"mish", &pw::mish, [](X x) { return x[0] * std::tanh(softplus(x[0])); }, -40, 40, 8, 8},
      {"softplus", &pw::softplus, [](X x) { return softplus(2 * x[0]) / 2; }, -30, 9, 6, 6, {p(2), p(20)}},
      {"log_sigmoid", &pw::log_sigmoid, [](X x) { return -softplus(-x[0]); }, -40, 40, 6, 6},
      {"hardswish",
       &pw::hardswish,
       [](X x) { return x[0] * std::min(std::max(x[0] + 3, Long(0)), Long(6)) / 6; },
       -8,
       8,
       3,
       3,
       {},
       2},
  };
}
std::vector<Case> loss_and_derivative_cases() {
  using X = const Long*;
  return {
      {"bce", &pw::bce, [](X x) { return (x[1] - 1) * std::log1p(-x[0]) - x[1] * std::log(x[0]); }, 1e-3, 0.999, 7, 7},
      {"bce_with_logits", &pw::bce_with_logits, [](X x) { return softplus(x[0]) - x[1] * x[0]; }, 0, 1, 7, 7},
      {"gelu_backward_erf",
       &pw::gelu_backward_erf,
       [](X x) { return x[0] * (normal_cdf(x[1]) + x[1] * std::exp(-x[1] * x[1] / 2) * kBeta / 2); },
       -4,
       4,
       10,
       10,
       {},
       30},
      {"gelu_backward_tanh",
       &pw::gelu_backward_tanh,
       [](X x) {
         const Long t = tanh_inner(x[1]);
         return x[0] * ((1 + t) / 2 + x[1] / 2 * (1 - t * t) * kBeta * (1 + 3 * Long(0.044715) * x[1] * x[1]));
       },
       -4,
       4,
       10,
       10,
       {},
       30},
      {"silu_backward",
       &pw::silu_backward,
       [](X x) {
         const Long s = logistic(x[1]);
         return x[0] * s * (1 + x[1] * (1 - s));
       },
       -6,
       6,
       16,
       16,
       {},
       10},
      {"mish_backward",
       &pw::mish_backward,
       [](X x) {
         const Long t = std::tanh(softplus(x[1]));
         return x[0] * (t + x[1] * logistic(x[1]) * (1 - t * t));
       },
       -6,
       6,
       16,
       16,
       {},
       20},
  };
}
std::vector<Case> other_derivative_cases() {
  using X = const Long*;
  const auto p = real_param;
  return {
      {"softplus_backward",
       &pw::softplus_backward,
       [](X x) { return x[0] * logistic(2 * x[1]); },
       -10,
       9,
       7,
       7,
       {p(2), p(20)}},
      {"log_sigmoid_backward", &pw::log_sigmoid_backward, [](X x) { return x[0] * logistic(-x[1]); }, -40, 40, 7, 7},
      {"elu_backward",
       &pw::elu_backward,
       [](X x) { return x[0] * (x[1] > 0 ? 2 : Long(1.5) * std::exp(x[1] / 2)); },
       -20,
       20,
       7,
       7,
       {p(1.5), p(2), p(0.5)}},
      {"smooth_l1",
       &pw::smooth_l1,
       [](X x) {
         const Long e = std::fabs(x[0] - x[1]);
         return e < 2 ? e * e / 4 : e - 1;
       },
       -5,
       5,
       4,
       4,
       {p(2)},
       4},
      {"huber",
       &pw::huber,
       [](X x) {
         const Long e = std::fabs(x[0] - x[1]);
         return e <= 2 ? e * e / 2 : 2 * (e - 1);
       },
       -5,
       5,
       4,
       4,
       {p(2)},
       4},
      {"bce_backward",
       &pw::bce_backward,
       [](X x) { return x[0] * (x[1] - x[2]) / ((1 - x[1]) * x[1]); },
       0.01,
       0.99,
       5,
       5,
       {},
       60},
  };
}

TEST_F(PointwiseOps, FloatsAreNearTheTrueValues) {
  for (const auto& cases : {activation_cases(), loss_and_derivative_cases(), other_derivative_cases()})
    check_accuracy<float>(cases, &Case::float_ulps);
}
TEST_F(PointwiseOps, DoublesAreNearTheTrueValues) {
  for (const auto& cases : {activation_cases(), loss_and_derivative_cases(), other_derivative_cases()})
    check_accuracy<double>(cases, &Case::double_ulps);
}

// ---- Edge values, against the CPU ----

const PointwiseOp* const kPlainOps[] = {&pw::relu,
                                        &pw::relu6,
                                        &pw::selu,
                                        &pw::silu,
                                        &pw::mish,
                                        &pw::hardsigmoid,
                                        &pw::hardswish,
                                        &pw::log_sigmoid,
                                        &pw::prelu,
                                        &pw::mse,
                                        &pw::bce,
                                        &pw::bce_with_logits,
                                        &pw::gelu_backward_erf,
                                        &pw::gelu_backward_tanh,
                                        &pw::silu_backward,
                                        &pw::mish_backward,
                                        &pw::hardsigmoid_backward,
                                        &pw::hardswish_backward,
                                        &pw::log_sigmoid_backward,
                                        &pw::mse_backward,
                                        &pw::bce_backward};

std::vector<Op> real_ops() {
  const auto p = real_param;
  std::vector<Op> all;
  for (const PointwiseOp* op : kPlainOps) all.push_back({op});
  for (const PointwiseOp* op : {&pw::gelu_erf, &pw::gelu_tanh}) all.push_back({op, {}, 1});
  for (const PointwiseOp* op : {&pw::leaky_relu, &pw::celu, &pw::softshrink, &pw::hardshrink, &pw::smooth_l1,
                                &pw::huber, &pw::leaky_relu_backward, &pw::shrink_backward, &pw::smooth_l1_backward,
                                &pw::huber_backward, &pw::threshold_backward}) {
    all.push_back({op, {p(0.5)}});
  }
  for (const PointwiseOp* op :
       {&pw::threshold, &pw::hardtanh, &pw::softplus, &pw::hardtanh_backward, &pw::softplus_backward})
    all.push_back({op, {p(0.5), p(2)}});
  for (const PointwiseOp* op : {&pw::elu, &pw::elu_backward, &pw::elu_backward_result})
    all.push_back({op, {p(1.5), p(2), p(0.5)}});
  return all;
}

TEST_F(PointwiseOps, FloatsAtTheEdgesAreAsOnTheCpu) { check_edges<float>(real_ops()); }
TEST_F(PointwiseOps, DoublesAtTheEdgesAreAsOnTheCpu) { check_edges<double>(real_ops()); }

TEST_F(PointwiseOps, ZerosKeepTheirSign) {
  for (const PointwiseOp* op : {&pw::relu, &pw::silu, &pw::mish}) {
    const std::vector<float> got = run<float>(*op, {{0.0f, -0.0f}}, {});
    EXPECT_TRUE(got[0] == 0 && !std::signbit(got[0]) && got[1] == 0 && std::signbit(got[1])) << op->name;
  }
  const float tiny = 1e-42f;
  EXPECT_EQ(run<float>(pw::relu, {{tiny}}, {})[0], tiny);  // not flushed
}

template <class R>
void check_complex() {
  check_complex_formulas<R>({{&pw::silu}});
  check_complex_pairs<R>({{&pw::silu_backward}});
}
TEST_F(PointwiseOps, Complex64) { check_complex<float>(); }
TEST_F(PointwiseOps, Complex128) { check_complex<double>(); }

template <class T>
void check_integers(const std::vector<Op>& ops) {
  for (const Op& o : ops) {
    expect_as_on_cpu<T>(o, combinations(integer_values<T>(), o.op->num_inputs),
                        [](T a, T b, size_t) { return a == b; });
  }
}
TEST_F(PointwiseOps, Integers) {
  KernelParam low, high;
  low.i = 2;
  high.i = 300;
  const std::vector<Op> all = {{&pw::relu},
                               {&pw::relu6},
                               {&pw::threshold, {low, high}},
                               {&pw::hardtanh, {low, high}},
                               {&pw::threshold_backward, {low}}};
  check_integers<uint8_t>(all);
  check_integers<int8_t>(all);
  check_integers<int16_t>(all);
  check_integers<int32_t>(all);
  check_integers<int64_t>(all);
  check_integers<uint16_t>({{&pw::relu}});
  check_integers<uint32_t>({{&pw::relu}});
  check_integers<uint64_t>({{&pw::relu}});
}

TEST_F(PointwiseOps, HalvesRoundTheFloatResult) {
  check_halves<Half>({&pw::gelu_erf, &pw::silu, &pw::hardswish, &pw::log_sigmoid});
  check_halves<BFloat16>({&pw::gelu_erf, &pw::silu, &pw::hardswish, &pw::log_sigmoid});
}

}  // namespace
}  // namespace tessera::cuda
