// Hooks of tensors and nodes: when they run, with what, and how they are taken off.
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/tests/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

TEST(Hooks, RunInTheirOrder) {
  Names log;
  const Tensor x = leaf({3});
  const Tensor m = x * 2.0;
  retain_grad(m);
  register_post_accumulate_grad_hook(
      x, [&](const Tensor& t) { log.push_back(str_cat("accumulated ", t.grad().item<double>())); });
  register_hook(x, [&](const Tensor& g) {
    log.push_back(str_cat("leaf ", g.item<double>()));
    return Tensor();
  });
  const IntrusivePtr<Node> node = grad_fn(m);
  register_post_hook(*node, [&](variable_list&& out, const variable_list& in) {
    log.push_back(str_cat("post ", in[0].item<double>(), " ", out[0].item<double>()));
    return std::move(out);
  });
  register_pre_hook(*node, [&](variable_list&& grads) {
    log.push_back("pre");
    return std::move(grads);
  });
  register_hook(m, [&](const Tensor& g) {
    log.push_back(str_cat("tensor ", g.item<double>()));
    EXPECT_TRUE(backward_is_running());
    queue_callback([&] { log.push_back("callback"); });
    return g * 10.0;
  });
  sum(m * m).backward();
  EXPECT_EQ(log, (Names{"tensor 12", "pre", "post 120 240", "leaf 240", "accumulated 240", "callback"}));
  EXPECT_EQ(values(m.grad()), (Numbers{120}));  // what the hook made of it is retained
  EXPECT_FALSE(backward_is_running());
  expect_error([] { queue_callback([] {}); }, "Final callbacks can only be installed during backward pass.");
}

TEST(Hooks, CanBeTakenOff) {
  int calls = 0;
  const Tensor x = leaf({3});
  const Tensor m = x * 2.0;
  const auto count = [&](const Tensor&) {
    ++calls;
    return Tensor();
  };
  const uint64_t on_result = register_hook(m, count), on_leaf = register_hook(x, count),
                 after = register_post_accumulate_grad_hook(x, [&](const Tensor&) { ++calls; });
  const Tensor y = sum(m);
  y.backward(Tensor(), true);
  EXPECT_EQ(calls, 3);
  remove_hook(m, on_result);
  remove_hook(x, on_leaf);
  remove_hook(x, after);
  y.backward();
  EXPECT_EQ(calls, 3);
}

TEST(Hooks, MayRunABackwardOfTheirOwn) {
  const Tensor x = leaf({1}), inner = leaf({4});
  register_hook(x, [&](const Tensor&) {
    NoGradGuard with_grad(true);
    sum(inner * inner).backward();
    return Tensor();
  });
  sum(x * 7.0).backward();
  EXPECT_EQ(values(inner.grad()), (Numbers{8}));
  EXPECT_EQ(values(x.grad()), (Numbers{7}));
}

TEST(Hooks, NeedATensorThatRequiresGrad) {
  expect_error([] { register_hook(doubles({1}), [](const Tensor& g) { return g; }); },
               "cannot register a hook on a tensor that doesn't require gradient");
}

// Keeps the numbers of a tensor, halved.
struct Halved final : RefCounted {
  Numbers numbers;
};

TEST(Hooks, OnSavedTensors) {
  const Tensor x = leaf({2, 3});
  Tensor y;
  {
    SavedTensorsHooks hooks(
        [](const Tensor& t) {
          auto kept = make_intrusive<Halved>();
          kept->numbers = values(t * 0.5);
          return kept;
        },
        [](const IntrusivePtr<RefCounted>& kept) { return doubles(static_cast<Halved&>(*kept).numbers); });
    y = sum(x * x);
  }
  y.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{2, 3}));
  sum(x * x).backward();  // outside of them
  EXPECT_EQ(values(x.grad()), (Numbers{6, 9}));
}

}  // namespace
}  // namespace tessera::autograd
