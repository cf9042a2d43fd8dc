// The walk over the graph: order, accumulation, what is freed and kept, restricted passes, long chains.
#include "autograd/engine.h"

#include <pthread.h>

#include <functional>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/tests/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

constexpr const char* kFreed = "Trying to backward through the graph a second time";

// Says when it runs and with what, and hands its gradient on to all its edges.
struct Recorder final : Node {
  Recorder(const char* name, Names* log) : name_(name), log_(log) {}
  variable_list apply(variable_list&& grads) override {
    log_->push_back(str_cat(name_, " ", grads[0].item<double>()));
    return variable_list(edges().size(), grads[0]);
  }
  const char* name() const override { return name_; }
  const char* name_;
  Names* log_;
};

TEST(Engine, RunsTheLatestNodeFirstAndEachOnce) {
  Names log;
  auto bottom = make_intrusive<Recorder>("bottom", &log), left = make_intrusive<Recorder>("left", &log),
       right = make_intrusive<Recorder>("right", &log), top = make_intrusive<Recorder>("top", &log);
  left->add_edge({bottom, 0});
  right->add_edge({bottom, 0});
  top->add_edge({left, 0});
  top->add_edge({right, 0});
  top->add_edge({bottom, 0});
  run_backward({{top, 0}}, {doubles({2})}, {}, {});
  EXPECT_EQ(log, (Names{"top 2", "right 2", "left 2", "bottom 6"}));
}

TEST(Engine, RestrictedPassesLeaveOutWhatLeadsElsewhere) {
  Names log;
  auto a = make_intrusive<Recorder>("a", &log), b = make_intrusive<Recorder>("b", &log),
       top = make_intrusive<Recorder>("top", &log);
  top->add_edge({a, 0});
  top->add_edge({b, 0});
  const variable_list captured = run_backward({{top, 0}}, {doubles({3})}, {{a, 0}}, {.accumulate = false});
  ASSERT_EQ(captured.size(), 1u);
  EXPECT_EQ(values(captured[0]), (Numbers{3}));
  EXPECT_EQ(log, (Names{"top 3"}));  // a's gradient is wanted, not what a would do with it
}

TEST(Engine, GradientsAddUp) {
  const Tensor x = leaf({1, -2});
  sum(x * x + x).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{3, -3}));
  sum(x * 4.0).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{7, 1}));
}

TEST(Engine, GradientsHaveTheFormOfTheirTensor) {
  const Tensor x = leaf({2}), f = ones({3}, DType::kFloat32).requires_grad_();
  sum(x * doubles({1, 10, 100}) * f).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{111}));  // broadcast on the way, so summed on the way back
  EXPECT_EQ(f.grad().dtype(), DType::kFloat32);
  EXPECT_EQ(values(to(f.grad(), DType::kFloat64)), (Numbers{2, 20, 200}));
}

TEST(Engine, AGraphIsFreedUnlessItIsRetained) {
  const Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  y.backward(Tensor(), true);
  y.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{12}));
  expect_error([&] { y.backward(); }, kFreed);
  EXPECT_EQ(values(x.grad()), (Numbers{12}));
}

TEST(Engine, DerivativesOfDerivatives) {
  const Tensor x[] = {leaf({2, -1})};
  Tensor y = sum(pow(x[0], Scalar(3)));
  const Numbers wanted[] = {{12, 3}, {12, -6}, {6, 6}};  // 3 x^2, 6 x, 6
  for (const Numbers& w : wanted) {
    const variable_list g = grad({&y, 1}, x, {}, std::nullopt, true);
    EXPECT_EQ(values(g[0]), w);
    y = sum(g[0]);
  }
  EXPECT_FALSE(x[0].grad().defined());
}

TEST(Engine, WithoutCreateGraphGradientsHaveNoHistory) {
  const Tensor x = leaf({2});
  const Tensor y = sum(x * x);
  EXPECT_FALSE(grad({&y, 1}, {&x, 1}, {}, true)[0].requires_grad());
  EXPECT_TRUE(grad({&y, 1}, {&x, 1}, {}, true, true)[0].requires_grad());
}

TEST(Engine, BackwardOfSomeInputs) {
  const Tensor a = leaf({2, 3}), b = leaf({5, 7});
  const Tensor m = b * 2.0;
  retain_grad(m);
  const Tensor y = sum(a * m);
  backward({&y, 1}, {}, true, false, {&a, 1});
  EXPECT_EQ(values(a.grad()), (Numbers{10, 14}));
  EXPECT_FALSE(b.grad().defined());
  EXPECT_FALSE(m.grad().defined());
  const Tensor inputs[] = {m, b};
  const variable_list g = grad({&y, 1}, inputs);
  EXPECT_EQ(values(g[0]), (Numbers{2, 3}));
  EXPECT_EQ(values(g[1]), (Numbers{4, 6}));
  EXPECT_FALSE(b.grad().defined());
}

TEST(Engine, InputsThatAreNotUsed) {
  const Tensor x = leaf({1}), other = leaf({1}), plain = doubles({1});
  const Tensor y = sum(x * 2.0);
  expect_error(
      [&] {
        grad({&y, 1}, {&other, 1}, {}, true);
      },
      "The differentiated Tensor at index 0 appears to not have been used in the graph");
  EXPECT_FALSE(grad({&y, 1}, {&other, 1}, {}, true, false, true)[0].defined());
  expect_error([&] { grad({&y, 1}, {&plain, 1}); }, "One of the differentiated Tensors does not require grad");
}

TEST(Engine, RootsWithSeveralElements) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = x * x;
  expect_error([&] { y.backward(); }, "grad can be implicitly created only for scalar outputs");
  expect_error([&] { y.backward(doubles({1, 2})); }, "Mismatch in shape: grad_output[0] has a shape of");
  expect_error([&] { doubles({1}).backward(); },
               "element 0 of tensors does not require grad and does not have a grad_fn");
  EXPECT_FALSE(x.grad().defined());
  y.backward(doubles({1, 0, -1}));
  EXPECT_EQ(values(x.grad()), (Numbers{2, 0, -6}));

  const Tensor roots[] = {x * 2.0, sum(x)}, grads[] = {doubles({1, 1, 5}), Tensor()};
  x.set_grad(Tensor());
  backward(roots, grads);
  EXPECT_EQ(values(x.grad()), (Numbers{3, 3, 11}));
}

// --- Long chains: on a stack that has no room for a frame (or two) for each node.

void on_a_small_stack(void (*f)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
  pthread_t thread;
  const auto start = [](void* g) -> void* {
    reinterpret_cast<void (*)()>(g)();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, reinterpret_cast<void*>(f)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr int kLength = 200000;

// Each node saves its input, which holds the node before.
Tensor chain(const Tensor& x, const Tensor& factor) {
  Tensor y = x;
  for (int i = 0; i < kLength; ++i) y = y * factor;
  return y;
}

TEST(LongChains, AreWalked) {
  on_a_small_stack([] {
    const Tensor inputs[] = {leaf({5}), leaf({1})};
    const Tensor y = chain(inputs[0], inputs[1]);
    const variable_list g = grad({&y, 1}, inputs, {}, true);
    EXPECT_EQ(values(g[0]), (Numbers{1}));
    EXPECT_EQ(values(g[1]), (Numbers{5.0 * kLength}));
    y.backward();
    EXPECT_EQ(values(inputs[1].grad()), (Numbers{5.0 * kLength}));
  });
}

TEST(LongChains, AreDestroyed) {
  on_a_small_stack([] {
    const Tensor x = leaf({1}), factor = leaf({1});
    Tensor y = chain(x, factor);
    const IntrusivePtr<Node> last = grad_accumulator(factor);
    EXPECT_EQ(last->use_count(), kLength + 1);
    y.reset();
    EXPECT_EQ(last->use_count(), 1);  // nothing of the chain is left
  });
}

}  // namespace
}  // namespace tessera::autograd
