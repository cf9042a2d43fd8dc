// Three steps of each optimizer and several epochs of each scheduler, against PyTorch's numbers.
#include <cmath>

#include <gtest/gtest.h>

#include "optim/optimizers/adam.h"
#include "optim/optimizers/lbfgs.h"
#include "optim/optimizers/lr_scheduler.h"
#include "optim/optimizers/sgd.h"

namespace tessera::optim {
namespace {

Tensor floats(std::vector<float> values) {
  const Tensor t = empty_kernel(IntVector{static_cast<int64_t>(values.size())}, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

// The second parameter gets its first gradient at the second step.
template <class Make>
void expect_steps(Make&& make, std::vector<float> expected) {
  const Tensor p = floats({1, -2}).requires_grad_(), q = floats({0.5f}).requires_grad_();
  const auto optimizer = make(std::vector<Tensor>{p, q});
  for (int i = 0; i < 3; ++i) {
    p.set_grad(floats({0.5f, 1.0f + i}));
    if (i) q.set_grad(floats({1}));
    optimizer->step();
  }
  EXPECT_NEAR(p.data<float>()[0], expected[0], 2e-6);
  EXPECT_NEAR(p.data<float>()[1], expected[1], 2e-6);
  EXPECT_NEAR(q.data<float>()[0], expected[2], 2e-6);
}
template <class O, class Options>
auto maker(Options options) {
  return [options](std::vector<Tensor> params) { return std::make_unique<O>(std::move(params), options); };
}

TEST(Steps, AreThoseOfPyTorch) {
  expect_steps(maker<SGD>(SGDOptions{.lr = 0.1}), {0.85f, -2.6f, 0.3f});
  expect_steps(maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}),
               {0.7288957238f, -2.8718645573f, 0.2186904699f});
  expect_steps(maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true}),
               {1.4024499655f, -0.5440999866f, 0.9610000253f});
  expect_steps(maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.1}),
               {0.7001745701f, -2.2899131775f, 0.3000260890f});
  AdamWOptions decoupled;
  decoupled.lr = 0.1;
  decoupled.amsgrad = true;
  expect_steps(maker<AdamW>(decoupled), {0.6973029375f, -2.2860279083f, 0.2991005182f});
}

// The banana of Rosenbrock, in two parameters of one number each.
template <class Options>
std::vector<double> minimised(Options options, int steps) {
  const auto one = [](double v) {
    const Tensor t = empty_kernel(IntVector{1}, DType::kFloat64);
    *t.data<double>() = v;
    return t;
  };
  const Tensor x = one(-1.2).requires_grad_(), y = one(1).requires_grad_();
  LBFGS lbfgs({x, y}, options);
  double loss = 0;
  int calls = 0;
  for (int i = 0; i < steps; ++i)
    loss = lbfgs.step([&] {
      ++calls;
      const double a = *x.data<double>(), b = *y.data<double>();
      x.set_grad(one(-400 * a * (b - a * a) - 2 * (1 - a)));
      y.set_grad(one(200 * (b - a * a)));
      return 100 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a);
    });
  EXPECT_EQ(calls, lbfgs.evaluations());
  return {loss, *x.data<double>(), *y.data<double>()};
}

TEST(Lbfgs, FindsTheMinimumWithALineSearchAndGoesOnFromItsHistory) {
  const auto found = minimised(LBFGSOptions{.max_iter = 5, .history_size = 3, .strong_wolfe = true}, 20);
  EXPECT_NEAR(found[1], 1, 1e-5);
  EXPECT_NEAR(found[2], 1, 1e-5);
  const auto short_steps = minimised(LBFGSOptions{.lr = 0.1, .max_iter = 10}, 3);
  EXPECT_LT(short_steps[0], 24.2);  // the value at the start
  EXPECT_EQ(minimised(LBFGSOptions{.max_eval = 1}, 4)[1], minimised(LBFGSOptions{.max_iter = 1}, 4)[1]);
  EXPECT_THROW(LBFGS({}), ValueError);
  EXPECT_THROW(LBFGS({floats({1})}, {.lr = -1}), ValueError);
}

TEST(State, ComesBack) {
  const auto run = [](bool interrupted) {
    const Tensor p = floats({1}).requires_grad_();
    auto adam = std::make_unique<Adam>(std::vector<Tensor>{p}, AdamOptions{.lr = 0.1});
    for (int i = 0; i < 4; ++i) {
      p.set_grad(floats({1.0f + i}));
      adam->step();
      if (!interrupted || i != 1) continue;
      const NamedTensors state = adam->state_dict();
      adam = std::make_unique<Adam>(std::vector<Tensor>{p}, AdamOptions{.lr = 0.1});
      adam->load_state_dict(state);
    }
    return p.data<float>()[0];
  };
  EXPECT_EQ(run(true), run(false));
  Adam adam({floats({1, 2})});
  for (const char* name :
       {"1.exp_avg", "0.nothing", "exp_avg", "x.exp_avg", ".exp_avg", "99999999999999999999.exp_avg"})
    EXPECT_THROW(adam.load_state_dict({{name, floats({1, 2})}}), Error) << name;
  EXPECT_THROW(adam.load_state_dict({{"0.exp_avg", floats({1})}}), Error);
  EXPECT_TRUE(adam.state_dict().empty());
}

TEST(Groups, HaveOptionsOfTheirOwn) {
  const Tensor p = floats({1}), q = floats({1});
  SGD sgd({p}, {.lr = 1});
  sgd.add_group({q}, {.lr = 0.5});
  p.set_grad(floats({1}));
  q.set_grad(floats({1}));
  sgd.step();
  EXPECT_EQ(p.data<float>()[0], 0);
  EXPECT_EQ(q.data<float>()[0], 0.5f);
  sgd.zero_grad(false);
  EXPECT_EQ(p.grad().data<float>()[0], 0);
  sgd.zero_grad();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_THROW(sgd.add_group({p}, {}), ValueError);
  EXPECT_EQ(sgd.num_groups(), 2u);
}

TEST(Errors, BadOptions) {
  const auto p = [] { return std::vector<Tensor>{floats({1})}; };
  EXPECT_THROW(SGD({}), ValueError);
  EXPECT_THROW(SGD(std::vector<Tensor>{Tensor()}), TypeError);
  EXPECT_THROW(SGD(p(), {.lr = -1}), ValueError);
  EXPECT_THROW(SGD(p(), {.nesterov = true}), ValueError);
  EXPECT_THROW(Adam(p(), {.beta1 = 1}), ValueError);
  EXPECT_THROW(Adam(p(), {.eps = -1}), ValueError);
  SGD sgd(p());
  EXPECT_THROW(StepLR(sgd, 0), ValueError);
  EXPECT_THROW(CosineAnnealingLR(sgd, 0), ValueError);
  EXPECT_THROW(LinearLR(sgd, 2), ValueError);
}

// The rates of epochs 0, 1 ... of a schedule with the first rate 1.
template <class S, class... A>
std::vector<double> rates(int epochs, A... arguments) {
  SGD sgd({floats({0})}, {.lr = 1});
  S schedule(sgd, arguments...);
  std::vector<double> result{sgd.lr()};
  for (int i = 1; i < epochs; ++i) {
    schedule.step();
    result.push_back(sgd.lr());
  }
  EXPECT_EQ(schedule.last_epoch(), epochs - 1);
  return result;
}
void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << "epoch " << i;
}

TEST(Schedulers, AreThoseOfPyTorch) {
  expect_near(rates<StepLR>(6, 2, 0.5), {1, 1, 0.5, 0.5, 0.25, 0.25});
  expect_near(rates<MultiStepLR>(5, std::vector<int64_t>{1, 3, 3}, 0.5), {1, 0.5, 0.5, 0.125, 0.125});
  expect_near(rates<ConstantLR>(4, 0.25, 2), {0.25, 0.25, 1, 1});
  expect_near(rates<LinearLR>(6, 0.25, 1, 4), {0.25, 0.4375, 0.625, 0.8125, 1, 1});
  expect_near(rates<ExponentialLR>(4, 0.5), {1, 0.5, 0.25, 0.125});
  expect_near(rates<PolynomialLR>(6, 4, 2), {1, 0.5625, 0.25, 0.0625, 0, 0});
  expect_near(rates<LambdaLR>(3, [](int64_t epoch) { return 1.0 / (1 + epoch); }), {1, 0.5, 1.0 / 3});
  expect_near(rates<CosineAnnealingLR>(8, 3, 0.1), {1, 0.775, 0.325, 0.1, 0.325, 0.775, 1, 0.775});
  expect_near(rates<CosineAnnealingWarmRestarts>(8, 2, 2),
              {1, 0.5, 1, 0.5 + std::sqrt(0.125), 0.5, 0.5 - std::sqrt(0.125), 1, 0.96193976625564337});
}

TEST(Schedulers, MultiplyWhatIsThere) {
  SGD sgd({floats({0})}, {.lr = 1});
  ExponentialLR schedule(sgd, 0.5);
  sgd.set_lr(8);
  schedule.step();
  EXPECT_EQ(sgd.lr(), 4);
}

TEST(Schedulers, PlateauReducesAfterPatience) {
  SGD sgd({floats({0})}, {.lr = 1});
  ReduceLROnPlateau schedule(sgd, {.factor = 0.5, .patience = 1, .cooldown = 1, .min_lr = 0.3});
  std::vector<double> got;
  for (double metric : {3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0, 2.0}) {
    schedule.step(metric);
    got.push_back(sgd.lr());
  }
  EXPECT_EQ(got, (std::vector<double>{1, 1, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3}));
  EXPECT_THROW(ReduceLROnPlateau(sgd, {.factor = 1}), ValueError);
}

}  // namespace
}  // namespace tessera::optim
