// Steps over lists of parameters, against their recurrences by hand; any layout and dtype, scaled and infinite
// gradients.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "optim/optim_ops.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;

Tensor doubles(const Numbers& v) {
  const int64_t size[] = {static_cast<int64_t>(v.size())};
  Tensor t = empty_kernel(size, DType::kFloat64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
Tensor number(double v) { return scalar_to_tensor(Scalar(v), DType::kFloat32); }

void expect_near(const Tensor& got, const Numbers& wanted, double tolerance = 1e-14) {
  const Tensor t = contiguous(to(got, DType::kFloat64));
  ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(t.data<double>()[i], wanted[i], tolerance * (1 + std::fabs(wanted[i]))) << i;
}

void expect_error(const std::function<void()>& f, const char* text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what(); }
}

// Plain SGD with a momentum, the options that the cases below leave alone.
void sgd(const Tensors& p, const Tensors& g, const Tensors& buffers, double momentum, bool first,
         const Tensor& grad_scale = {}, const Tensor& found_inf = {}) {
  _fused_sgd_(p, g, buffers, 0, momentum, 0.1, 0, false, false, first, grad_scale, found_inf);
}

TEST(Sgd, StepsOfAList) {
  const Tensors p = {doubles({1, 2}), doubles({-3})}, g = {doubles({10, -10}), doubles({1})};
  sgd(p, g, {}, 0, true);
  expect_near(p[0], {0, 3});
  expect_near(p[1], {-3.1});
}

TEST(Sgd, Momentum) {
  const Tensors p = {doubles({1})}, g = {doubles({2})}, b = {doubles({99})};
  sgd(p, g, b, 0.5, true);  // the first step's buffer is the gradient, whatever was there
  expect_near(b[0], {2});
  expect_near(p[0], {0.8});
  sgd(p, g, b, 0.5, false);  // 0.5 * 2 + 2
  expect_near(b[0], {3});
  expect_near(p[0], {0.5});
}

TEST(Sgd, AllOptions) {
  // g = -2 + 1 * 4 (maximize, decay); the buffer 0.5 * 8 + (1 - 0.25) * 2; nesterov: 2 + 0.5 * 5.5.
  const Tensors p = {doubles({4})}, g = {doubles({2})}, b = {doubles({8})};
  _fused_sgd_(p, g, b, 1, 0.5, 0.1, 0.25, true, true, false);
  expect_near(b[0], {5.5});
  expect_near(p[0], {3.525});
  EXPECT_EQ(g[0].item<double>(), 2);
  // The learning rate as a tensor.
  _fused_sgd_(p, g, Tensors{}, 0, 0, doubles({0.5}), 0, false, false, true);
  expect_near(p[0], {2.525});
}

TEST(Sgd, ParametersOfAnyLayout) {
  const Tensor storage = doubles({1, 2, 3, 4, 5, 6});
  const Tensors p = {transpose(view(storage, {2, 3}), 0, 1)};  // rows 1 4, 2 5, 3 6
  const Tensors g = {view(doubles({10, 20, 30, 40, 50, 60}), {3, 2})};
  const Tensors b = {zeros({3, 2}, DType::kFloat64)};
  sgd(p, g, b, 0.9, true);
  expect_near(storage, {0, -1, -2, 2, 1, 0});
  expect_near(b[0], {10, 20, 30, 40, 50, 60});
}

// One step of Adam by hand.
struct Adam {
  double p, m = 0, v = 0, largest = 0;
  void step(double g, int t, double lr, double decay, bool decoupled, bool amsgrad) {
    if (decoupled)
      p *= 1 - lr * decay;
    else
      g += decay * p;
    m = 0.9 * m + 0.1 * g;
    v = 0.99 * v + 0.01 * g * g;
    largest = std::max(largest, v);
    const double hat = (amsgrad ? largest : v) / (1 - std::pow(0.99, t));
    p -= lr * (m / (1 - std::pow(0.9, t))) / (std::sqrt(hat) + 1e-3);
  }
};

// Lists of two parameters, one of them of every second element.
void check_adam(bool decoupled, bool amsgrad, double decay) {
  const Tensor storage = doubles({1, 7, -2, 7});
  const Tensors p = {doubles({0.5}), select(view(storage, {2, 2}), 1, 0)};
  auto fresh = [] { return Tensors{doubles({0}), doubles({0, 0})}; };
  const Tensors m = fresh(), v = fresh(), largest = fresh(), steps = {number(0), number(0)};
  Adam wanted[] = {{0.5}, {1}, {-2}};
  for (int t = 1; t <= 4; ++t) {
    const double g[] = {2.0 / t, -1.0 / t, 0.25};
    const Tensors grads = {doubles({g[0]}), doubles({g[1], g[2]})};
    for (const Tensor& s : steps) s.add_(Scalar(1));
    if (decoupled)
      _fused_adamw_(p, grads, m, v, largest, steps, 0.1, 0.9, 0.99, decay, 1e-3, amsgrad, false);
    else
      _fused_adam_(p, grads, m, v, largest, steps, 0.1, 0.9, 0.99, decay, 1e-3, amsgrad, false);
    for (int i = 0; i < 3; ++i) wanted[i].step(g[i], t, 0.1, decay, decoupled, amsgrad);
  }
  expect_near(p[0], {wanted[0].p}, 1e-13);
  expect_near(storage, {wanted[1].p, 7, wanted[2].p, 7}, 1e-13);
  expect_near(m[1], {wanted[1].m, wanted[2].m}, 1e-13);
  expect_near(v[1], {wanted[1].v, wanted[2].v}, 1e-13);
  if (amsgrad) expect_near(largest[1], {wanted[1].largest, wanted[2].largest}, 1e-13);
}

TEST(Adam, Recurrence) {
  check_adam(false, false, 0);
  check_adam(false, false, 0.5);
  check_adam(true, false, 0.5);
  check_adam(false, true, 0);
  check_adam(true, true, 0.5);
}

TEST(Steps, NothingHappensWhereGradientsAreInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensors p = {doubles({1, 2})}, g = {doubles({inf, 4})}, b = {doubles({5, 6})};
  sgd(p, g, b, 0.9, false, number(2), number(1));
  const Tensors m = {doubles({1, 1})}, v = {doubles({2, 2})}, steps = {number(3)};
  _fused_adam_(p, g, m, v, Tensors{}, steps, 0.1, 0.9, 0.99, 0.1, 1e-8, false, false, number(2), number(1));
  expect_near(p[0], {1, 2});
  expect_near(b[0], {5, 6});
  expect_near(m[0], {1, 1});
  expect_near(v[0], {2, 2});
  EXPECT_EQ(g[0].data<double>()[0], inf);
  EXPECT_EQ(g[0].data<double>()[1], 4);  // not even divided by the scale
  EXPECT_EQ(steps[0].item<double>(), 3);
  const Tensors finite = {doubles({10, 10})};
  sgd(p, finite, {}, 0, true, {}, number(0));  // a flag that is not set
  expect_near(p[0], {0, 1});
}

TEST(Steps, GradientsAreDividedByTheirScale) {
  const Tensors p = {doubles({1})}, g = {doubles({80})};
  sgd(p, g, {}, 0, true, number(8), number(0));
  expect_near(p[0], {0});
  expect_near(g[0], {10});  // and stay so
  const Tensors m = {doubles({0})}, v = {doubles({0})}, steps = {number(1)};
  _fused_adam_(p, g, m, v, Tensors{}, steps, 0.1, 0.9, 0.99, 0, 1e-8, false, false, number(5));
  expect_near(m[0], {0.2});
  expect_near(v[0], {0.04});
  expect_near(g[0], {2});
}

TEST(Steps, MixedDtypes) {
  const Tensor half = to(doubles({1, 2}), DType::kBFloat16), single = to(doubles({3, 4}), DType::kFloat32);
  const Tensors p = {half, single}, g = {doubles({5, -5}), to(doubles({5, -5}), DType::kFloat16)};
  const Tensors b = {zeros({2}, DType::kFloat32), zeros({2}, DType::kFloat64)};
  sgd(p, g, b, 0.5, true);
  EXPECT_EQ(half.dtype(), DType::kBFloat16);
  EXPECT_EQ(b[0].dtype(), DType::kFloat32);
  expect_near(half, {0.5, 2.5});
  expect_near(single, {2.5, 4.5}, 1e-6);
  expect_near(b[0], {5, -5});
  expect_near(b[1], {5, -5});
  // State that is finer than its parameter keeps what the parameter rounds away.
  const Tensors q = {to(doubles({256}), DType::kBFloat16)}, small = {to(doubles({1}), DType::kBFloat16)};
  const Tensors m = {zeros({1}, DType::kFloat64)}, v = {zeros({1}, DType::kFloat64)}, steps = {number(1)};
  _fused_adam_(q, small, m, v, Tensors{}, steps, 0.1, 0.9, 0.999, 0, 1e-8, false, false);
  expect_near(q[0], {256});  // 255.9: neighbours are 255 and 256
  expect_near(m[0], {0.1});
  expect_near(v[0], {0.001});
}

TEST(Steps, Errors) {
  const Tensors p = {doubles({1, 2})}, two = {doubles({1, 2}), doubles({1, 2})}, other = {doubles({1})};
  expect_error([&] { sgd(p, two, {}, 0, true); }, "_fused_sgd_: expected as many grads as parameters (1), but got 2");
  expect_error([&] { sgd(p, other, {}, 0, true); },
               "_fused_sgd_: expected grads[0] to have the parameter's shape [2], but got [1]");
  expect_error([&] { sgd(p, p, {}, 0.9, true); }, "a momentum of 0.9 needs a momentum_buffer_list");
  expect_error([&] { sgd(p, {ones({2}, DType::kInt64)}, {}, 0, true); }, "to be of a floating point dtype");
  expect_error([&] { sgd(p, p, {}, 0, true, doubles({1, 2})); }, "grad_scale must have one element");
  expect_error([&] { _fused_adam_(p, p, p, p, Tensors{}, Tensors{}, 0.1, 0.9, 0.99, 0, 1e-8, false, false); },
               "_fused_adam_: expected as many state_steps as parameters (1), but got 0");
  expect_near(p[0], {1, 2});
}

}  // namespace
}  // namespace tessera
