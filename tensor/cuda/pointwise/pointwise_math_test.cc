// Mathematical functions, activations and losses on the device: how far they are from the true values, and that they
// agree with the CPU's at the edges.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <numbers>

#include "nn/cpu/ops.h"
#include "nn/cuda/engines.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cuda/support/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

// The engine learns the kernels of neural networks' ops.
const bool g_connected = [] {
  nn::Engines engines;
  connect(engines);
  return true;
}();

using testing::Mirror;
class PointwiseMathTest : public testing::DeviceTest {};

using Long = long double;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

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

KernelParam real_param(double x) {
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

// ---- References in long double ----

Long logistic(Long x) { return 1 / (1 + std::exp(-x)); }
Long normal_cdf(Long x) { return std::erfc(-x / std::numbers::sqrt2_v<Long>) / 2; }
Long softplus(Long x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
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

// Of the approximation of gelu.
const Long kBeta = std::numbers::sqrt2_v<Long> * std::numbers::inv_sqrtpi_v<Long>;
Long tanh_inner(Long x) { return std::tanh(kBeta * (x + Long(0.044715) * x * x * x)); }

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
  };
}
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

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& part :
       {elementary_cases(), special_cases(), activation_cases(), loss_and_derivative_cases(), other_derivative_cases()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

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
void check_accuracy(double Case::*bound) {
  const int n = sizeof(T) == 4 ? 20001 : 4001;
  for (const Case& c : cases()) {
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
TEST_F(PointwiseMathTest, FloatsAreNearTheTrueValues) { check_accuracy<float>(&Case::float_ulps); }
TEST_F(PointwiseMathTest, DoublesAreNearTheTrueValues) { check_accuracy<double>(&Case::double_ulps); }

// ---- Edge values, against the CPU ----

struct Op {
  const PointwiseOp* op;
  std::vector<KernelParam> params;
};

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
                                        &pw::erf,
                                        &pw::erfc,
                                        &pw::erfinv,
                                        &pw::lgamma,
                                        &pw::digamma,
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
                                        &pw::relu,
                                        &pw::relu6,
                                        &pw::selu,
                                        &pw::gelu_erf,
                                        &pw::gelu_tanh,
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
                                        &pw::sigmoid_backward,
                                        &pw::tanh_backward,
                                        &pw::mse_backward,
                                        &pw::bce_backward};

std::vector<Op> real_ops() {
  const auto p = real_param;
  std::vector<Op> all;
  for (const PointwiseOp* op : kPlainOps) all.push_back({op, {}});
  for (const PointwiseOp* op : {&pw::logit, &pw::logit_backward}) {
    all.push_back({op, {p(kNan)}});
    all.push_back({op, {p(0.125)}});
  }
  for (double n : {1.0, 2.0, 3.0}) all.push_back({&pw::polygamma, {p(n)}});
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
void check_edges() {
  using L = std::numeric_limits<T>;
  const std::vector<double> values = {0.0,  -0.0,  1,        -1,          0.5,      -0.5,      2,    -2,    3,   -3,
                                      7.25, -7.75, 1e-3,     -1e-3,       20.5,     -20.5,     50,   -60,   100, -100,
                                      1e4,  -1e4,  L::max(), L::lowest(), L::min(), -L::min(), kInf, -kInf, kNan};
  std::vector<T> typed;
  for (double v : values) typed.push_back(static_cast<T>(v));
  const std::vector<T> few = {T(0.0),           T(-0.0), T(1), T(-2), T(0.25), T(L::infinity()), -T(L::infinity()),
                              T(L::quiet_NaN())};
  for (const Op& o : real_ops()) {
    const auto in = combinations(o.op->num_inputs == 3 ? few : typed, o.op->num_inputs);
    expect_as_on_cpu<T>(o, in, [&](T a, T b, size_t i) {
      // Where large terms cancel, the result is as good as these are.
      double size = o.op->num_inputs == 1 && (o.op == &pw::gelu_erf || o.op == &pw::gelu_tanh || o.op == &pw::lgamma ||
                                              o.op == &pw::digamma || o.op == &pw::erf)
                        ? 1
                        : 0;
      if (o.op->num_inputs > 1 && o.op != &pw::hypot && o.op != &pw::atan2) {
        for (const auto& x : in) size = std::max(size, std::isfinite(x[i]) ? std::fabs(static_cast<double>(x[i])) : 0);
      }
      if (o.op == &pw::sinc && std::fabs(in[0][i]) > 0.9) size = 1;  // sin of a rounded product with pi
      if (a == 0 && b == 0) return true;  // the sign of a zero is not documented for most of them
      return agrees(a, b, 64, std::min(size, 1e30));
    });
  }
}
TEST_F(PointwiseMathTest, FloatsAtTheEdgesAreAsOnTheCpu) { check_edges<float>(); }
TEST_F(PointwiseMathTest, DoublesAtTheEdgesAreAsOnTheCpu) { check_edges<double>(); }

TEST_F(PointwiseMathTest, ZerosKeepTheirSign) {
  for (const PointwiseOp* op :
       {&pw::sqrt, &pw::expm1, &pw::log1p, &pw::sin, &pw::tan, &pw::asin, &pw::atan, &pw::sinh, &pw::tanh, &pw::asinh,
        &pw::atanh, &pw::erf, &pw::erfinv, &pw::relu, &pw::silu, &pw::mish}) {
    const std::vector<float> got = run<float>(*op, {{0.0f, -0.0f}}, {});
    EXPECT_TRUE(got[0] == 0 && !std::signbit(got[0]) && got[1] == 0 && std::signbit(got[1])) << op->name;
  }
}

TEST_F(PointwiseMathTest, SubnormalNumbersAreNotFlushed) {
  const float tiny = 1e-42f;
  EXPECT_EQ(run<float>(pw::sin, {{tiny}}, {})[0], tiny);
  EXPECT_EQ(run<float>(pw::expm1, {{tiny}}, {})[0], tiny);
  EXPECT_EQ(run<float>(pw::relu, {{tiny}}, {})[0], tiny);
  EXPECT_GT(run<float>(pw::exp, {{-100.0f}}, {})[0], 0);
  EXPECT_NEAR(run<float>(pw::log, {{tiny}}, {})[0], std::log(static_cast<double>(tiny)), 1e-5);
}

template <class R>
void check_complex() {
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
  // Functions: each part is right, edges as in Annex G.
  const Op functions[] = {{&pw::sqrt, {}},  {&pw::exp, {}},  {&pw::log, {}},  {&pw::log2, {}}, {&pw::log10, {}},
                          {&pw::sin, {}},   {&pw::cos, {}},  {&pw::tan, {}},  {&pw::asin, {}}, {&pw::acos, {}},
                          {&pw::atan, {}},  {&pw::sinh, {}}, {&pw::cosh, {}}, {&pw::tanh, {}}, {&pw::asinh, {}},
                          {&pw::acosh, {}}, {&pw::atanh, {}}};
  for (const Op& o : functions) {
    expect_as_on_cpu<C>(o, {values}, [](C a, C b, size_t) {
      return (agrees(a.real(), b.real(), 16) || (a.real() == 0 && b.real() == 0)) &&
             (agrees(a.imag(), b.imag(), 16) || (a.imag() == 0 && b.imag() == 0));
    });
  }
  // Formulas: near beside the size of the result; where an infinity is lost in one of them, the other may have it.
  const Op formulas[] = {{&pw::square, {}}, {&pw::reciprocal, {}}, {&pw::rsqrt, {}},
                         {&pw::exp2, {}},   {&pw::expm1, {}},      {&pw::log1p, {}},
                         {&pw::sinc, {}},   {&pw::sigmoid, {}},    {&pw::silu, {}}};
  for (const Op& o : formulas) {
    expect_as_on_cpu<C>(o, {values}, [&](C a, C b, size_t i) {
      if (!std::isfinite(values[i].real()) || !std::isfinite(values[i].imag()) || std::abs(values[i]) > 60) return true;
      if (a == b) return true;
      const double size = std::max(1e-30, static_cast<double>(std::abs(b)));
      return agrees(a.real(), b.real(), 64, size) && agrees(a.imag(), b.imag(), 64, size);
    });
  }
  std::vector<C> others(values.rbegin(), values.rend());
  const Op pairs[] = {
      {&pw::logaddexp, {}}, {&pw::sigmoid_backward, {}}, {&pw::tanh_backward, {}}, {&pw::silu_backward, {}}};
  for (const Op& o : pairs) {
    expect_as_on_cpu<C>(o, {values, others}, [&](C a, C b, size_t i) {
      const double size = static_cast<double>(std::abs(values[i])) + static_cast<double>(std::abs(others[i]));
      if (!(size < 40)) return true;
      const double terms = (1 + size) * (1 + size) * (1 + size);
      return agrees(a.real(), b.real(), 64, terms) && agrees(a.imag(), b.imag(), 64, terms);
    });
  }
}
TEST_F(PointwiseMathTest, Complex64) { check_complex<float>(); }
TEST_F(PointwiseMathTest, Complex128) { check_complex<double>(); }

template <class T>
void check_integers() {
  using L = std::numeric_limits<T>;
  const std::vector<T> values = {0,
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
  KernelParam low, high;
  low.i = 2;
  high.i = 300;
  std::vector<Op> all = {{&pw::relu, {}}};
  if (pw::square.kernels[static_cast<int>(DTypeOf<T>::value)]) {
    all.insert(all.end(), {{&pw::square, {}},
                           {&pw::relu6, {}},
                           {&pw::threshold, {low, high}},
                           {&pw::hardtanh, {low, high}},
                           {&pw::threshold_backward, {low}}});
  }
  for (const Op& o : all) {
    expect_as_on_cpu<T>(o, combinations(values, o.op->num_inputs), [](T a, T b, size_t) { return a == b; });
  }
}
TEST_F(PointwiseMathTest, Integers) {
  check_integers<uint8_t>();
  check_integers<int8_t>();
  check_integers<int16_t>();
  check_integers<int32_t>();
  check_integers<int64_t>();
  check_integers<uint16_t>();
  check_integers<uint32_t>();
  check_integers<uint64_t>();
}

// float16 and bfloat16 round the float32 result once.
template <class T>
void check_halves() {
  std::vector<T> values;
  for (float x = -12; x < 12; x += 0.37f) values.push_back(T(x));
  std::vector<float> floats(values.begin(), values.end());
  for (const PointwiseOp* op :
       {&pw::exp, &pw::tanh, &pw::gelu_erf, &pw::silu, &pw::lgamma, &pw::hardswish, &pw::log_sigmoid}) {
    const std::vector<T> got = run<T>(*op, {values}, {});
    const std::vector<float> want = run<float>(*op, {floats}, {});
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(got[i].bits, T(want[i]).bits) << op->name << " " << floats[i];
  }
}
TEST_F(PointwiseMathTest, HalvesRoundTheFloatResult) {
  check_halves<Half>();
  check_halves<BFloat16>();
}

}  // namespace
}  // namespace tessera::cuda
