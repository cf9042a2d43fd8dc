// Hooks of tensors and nodes: when they run, with what, and how they are taken off.
#include <functional>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

struct OnTensor final : TensorHook {
  explicit OnTensor(std::function<Tensor(const Tensor&)> g) : f(std::move(g)) {}
  Tensor call(const Tensor& grad) override { return f(grad); }
  std::function<Tensor(const Tensor&)> f;
};
struct Before final : NodePreHook {
  explicit Before(std::function<void()> g) : f(std::move(g)) {}
  variable_list call(variable_list&& grads) override {
    f();
    return std::move(grads);
  }
  std::function<void()> f;
};
struct After final : NodePostHook {
  explicit After(std::function<void()> g) : f(std::move(g)) {}
  variable_list call(variable_list&& outputs, const variable_list&) override {
    f();
    return std::move(outputs);
  }
  std::function<void()> f;
};
struct Accumulated final : PostAccumulateHook {
  explicit Accumulated(std::function<void(const Tensor&)> g) : f(std::move(g)) {}
  void call(const Tensor& t) override { f(t); }
  std::function<void(const Tensor&)> f;
};

TEST(Hooks, RunInTheirOrder) {
  Names log;
  const Tensor x = leaf({3});
  const Tensor m = x * 2.0;
  retain_grad(m);
  add_post_accumulate_hook(x, make_intrusive<Accumulated>([&](const Tensor& t) {
                             log.push_back(str_cat("accumulated ", t.grad().item<double>()));
                           }));
  add_hook(x, make_intrusive<OnTensor>([&](const Tensor& g) {
             log.push_back(str_cat("leaf ", g.item<double>()));
             return Tensor();
           }));
  const IntrusivePtr<Node> node = grad_fn(m);
  node->hooks().post.entries.push_back({next_hook_id(), 0, make_intrusive<After>([&] { log.push_back("post"); })});
  node->hooks().pre.entries.push_back({next_hook_id(), 0, make_intrusive<Before>([&] { log.push_back("pre"); })});
  add_hook(m, make_intrusive<OnTensor>([&](const Tensor& g) {
             log.push_back(str_cat("tensor ", g.item<double>()));
             EXPECT_TRUE(backward_is_running());
             queue_callback([&] { log.push_back("callback"); });
             return g * 10.0;
           }));
  sum(m * m).backward();
  EXPECT_EQ(log, (Names{"tensor 12", "pre", "post", "leaf 240", "accumulated 240", "callback"}));
  EXPECT_EQ(values(m.grad()), (Numbers{120}));  // what the hook made of it is retained
  EXPECT_FALSE(backward_is_running());
  expect_error([] { queue_callback([] {}); }, "Final callbacks can only be installed during backward pass.");
}

TEST(Hooks, CanBeTakenOff) {
  int calls = 0;
  const Tensor x = leaf({3});
  const Tensor m = x * 2.0;
  const uint64_t id = add_hook(m, make_intrusive<OnTensor>([&](const Tensor&) {
                                 ++calls;
                                 return Tensor();
                               }));
  const Tensor y = sum(m);
  y.backward(Tensor(), true);
  grad_fn(m)->hooks().tensor.remove(id);
  y.backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, MayRunABackwardOfTheirOwn) {
  const Tensor x = leaf({1}), inner = leaf({4});
  add_hook(x, make_intrusive<OnTensor>([&](const Tensor&) {
             NoGradGuard with_grad(true);
             sum(inner * inner).backward();
             return Tensor();
           }));
  sum(x * 7.0).backward();
  EXPECT_EQ(values(inner.grad()), (Numbers{8}));
  EXPECT_EQ(values(x.grad()), (Numbers{7}));
}

TEST(Hooks, NeedATensorThatRequiresGrad) {
  auto hook = make_intrusive<OnTensor>([](const Tensor&) { return Tensor(); });
  expect_error([&] { add_hook(doubles({1}), hook); },
               "cannot register a hook on a tensor that doesn't require gradient");
}

}  // namespace
}  // namespace tessera::autograd
