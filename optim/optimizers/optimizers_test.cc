// Three steps of each optimizer and several epochs of each scheduler, against PyTorch's numbers.
#include <gtest/gtest.h>

#include "optim/optimizers/adam.h"
#include "optim/optimizers/lr_scheduler.h"
#include "optim/optimizers/sgd.h"

namespace tessera::optim {
namespace {

Tensor floats(std::vector<float> values) {
  const Tensor t = empty_cpu(IntVector{static_cast<int64_t>(values.size())}, DType::kFloat32);
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
  expect_steps(maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}), {0.7288957238f, -2.8718645573f, 0.2186904699f});
  expect_steps(maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true}), {1.4024499655f, -0.5440999866f, 0.9610000253f});
  expect_steps(maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.1}), {0.7001745701f, -2.2899131775f, 0.3000260890f});
  AdamWOptions decoupled;
  decoupled.lr = 0.1;
  decoupled.amsgrad = true;
  expect_steps(maker<AdamW>(decoupled), {0.6973029375f, -2.2860279083f, 0.2991005182f});
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
  for (const char* name : {"1.exp_avg", "0.nothing", "exp_avg", "x.exp_avg", ".exp_avg", "99999999999999999999.exp_avg"}) EXPECT_THROW(adam.load_state_dict({{name, floats({1, 2})}}), Error) << name;
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
}

TEST(Schedulers, AreThoseOfPyTorch) {
  SGD sgd({floats({0})}, {.lr = 1});
  StepLR step(sgd, 2, 0.5);
  for (double lr : {1.0, 0.5, 0.5, 0.25, 0.25}) {
    step.step();
    EXPECT_EQ(sgd.lr(), lr);
  }
  sgd.set_lr(1);
  CosineAnnealingLR cosine(sgd, 3, 0.1);
  for (double lr : {0.775, 0.3250000000000001, 0.1, 0.32499999999999996, 0.7750000000000005, 1.0000000000000007, 0.7750000000000007}) {
    cosine.step();
    EXPECT_NEAR(sgd.lr(), lr, 1e-15);
  }
  EXPECT_EQ(cosine.last_epoch(), 7);
}

}  // namespace
}  // namespace tessera::optim
