// Several threads build and run backward at once: on leaves that they share, and on a graph that they share.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "autograd/accumulate_grad.h"
#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/tests/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

constexpr int kThreads = 8, kRounds = 200;

// f(number of the thread) on kThreads threads, which begin together.
void on_threads(const std::function<void(int)>& f) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting) std::this_thread::yield();
      f(i);
    });
  for (std::thread& t : threads) t.join();
}

TEST(Threads, GradientsOfSharedLeavesAddUp) {
  const Tensor w = leaf({1, 2, 3}), b = leaf({0.5, 0.5, 0.5});
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) sum(w * w + b * 2.0).backward();
  });
  const double n = kThreads * kRounds;
  EXPECT_EQ(values(w.grad()), (Numbers{2 * n, 4 * n, 6 * n}));
  EXPECT_EQ(values(b.grad()), (Numbers{2 * n, 2 * n, 2 * n}));
}

// Each graph's end frees the leaf's accumulator while other threads ask for it.
TEST(Threads, AccumulatorsComeAndGo) {
  const Tensor w = leaf({3});
  on_threads([&](int) {
    for (int r = 0; r < kRounds * 10; ++r) EXPECT_EQ(gradient_edge(w).input_nr, 0u);
  });
  auto held = grad_accumulator(w);
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) EXPECT_EQ(grad_accumulator(w).get(), held.get());
  });
  sum(w * 1.0).backward();
  EXPECT_EQ(values(w.grad()), (Numbers{1}));
}

TEST(Threads, ASharedGraphServesAllWhoRetainIt) {
  const Tensor w = leaf({1, 2});
  const Tensor y = sum(exp(w * w) * w);
  const Numbers once = values(grad({&y, 1}, {&w, 1}, {}, true)[0]);
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) EXPECT_EQ(values(grad({&y, 1}, {&w, 1}, {}, true)[0]), once);
  });
}

// Of threads that free a graph as they go, one gets its gradients; the others may, or hear that it is gone.
TEST(Threads, ASharedGraphIsFreedOnce) {
  for (int r = 0; r < kRounds; ++r) {
    const Tensor w = leaf({1, 2});
    const Tensor y = sum(exp(w * w) * w);
    std::atomic<int> done{0}, refused{0};
    on_threads([&](int) {
      try {
        grad({&y, 1}, {&w, 1});
        ++done;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("backward through the graph a second time"), std::string::npos)
            << e.what();
        ++refused;
      }
    });
    EXPECT_GE(done.load(), 1);
    EXPECT_EQ(done + refused, kThreads);
    expect_error([&] { grad({&y, 1}, {&w, 1}); }, "second time");
  }
}

// Views of a base that was written to make their history when somebody asks, whoever it is.
TEST(Threads, ViewsOfAWrittenBase) {
  for (int r = 0; r < kRounds; ++r) {
    const Tensor w = leaf({1, 2, 3, 4});
    const Tensor base = w * 1.0;
    const Tensor view = narrow(base, 0, 1, 2);
    mul_(base, 3.0);
    std::vector<Numbers> found(kThreads);
    on_threads([&](int i) {
      const Tensor y = sum(view * view);
      found[static_cast<size_t>(i)] = values(grad({&y, 1}, {&w, 1}, {}, true)[0]);
    });
    for (const Numbers& f : found) EXPECT_EQ(f, (Numbers{0, 36, 54, 0}));
  }
}

// A view made before its base had a history has nothing of its own until the first of them asks.
TEST(Threads, ViewsMadeBeforeTheirBaseHadAHistory) {
  for (int r = 0; r < kRounds; ++r) {
    const Tensor w = leaf({1, 2});
    const Tensor base = doubles({5, 6, 7, 8});
    const Tensor view = narrow(base, 0, 1, 2), wide = tessera::view(base, IntVector{2, 2});
    copy_(narrow(base, 0, 0, 2), w);
    std::vector<Numbers> found(kThreads);
    on_threads([&](int i) {
      EXPECT_TRUE(view.requires_grad());
      const Tensor y = sum(view * view) + sum(wide * 3.0);
      found[static_cast<size_t>(i)] = values(grad({&y, 1}, {&w, 1}, {}, true)[0]);
    });
    for (const Numbers& f : found) EXPECT_EQ(f, (Numbers{3, 7}));
    EXPECT_FALSE(view.is_leaf());
  }
}

// One graph with writes through views in it, its hooks, and its leaves' sums.
TEST(Threads, ASharedGraphOfViewsWithHooks) {
  const Tensor w = leaf({1, 2, 3, 4});
  const Tensor base = w * 1.0;
  mul_(narrow(base, 0, 1, 2), narrow(w, 0, 2, 2));
  const Tensor view = narrow(base, 0, 0, 3);
  std::atomic<int> on_view{0}, on_leaf{0};
  register_hook(view, [&](const Tensor& g) {
    ++on_view;
    return g * 2.0;
  });
  register_hook(w, [&](const Tensor&) {
    ++on_leaf;
    return Tensor();
  });
  const Tensor y = sum(exp(view) * 0.0 + view);
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) y.backward({}, true);
  });
  const double n = kThreads * kRounds;
  EXPECT_EQ(values(w.grad()), (Numbers{2 * n, 6 * n, 12 * n, 6 * n}));
  EXPECT_EQ(on_view.load(), n);
  EXPECT_EQ(on_leaf.load(), n);
}

// Handles of leaves, and whole graphs, go while others run backward through what they were part of.
TEST(Threads, LeavesAndGraphsGoMeanwhile) {
  for (int r = 0; r < kRounds; ++r) {
    std::vector<Tensor> leaves(kThreads), ends(kThreads);
    for (Tensor& t : leaves) t = leaf({1, 2});
    Tensor total = doubles({0, 0});
    for (const Tensor& t : leaves) total = total + t * t;
    for (Tensor& e : ends) e = sum(total * 1.0);
    std::atomic<int> sums{0};
    for (const Tensor& t : leaves) register_post_accumulate_grad_hook(t, [&](const Tensor&) { ++sums; });
    total = Tensor();
    on_threads([&](int i) {
      const auto at = static_cast<size_t>(i);
      leaves[at] = Tensor();
      ends[at].backward({}, true);
      ends[at] = Tensor();
    });
    EXPECT_EQ(sums.load(), kThreads * kThreads);
  }
}

TEST(Threads, EachKeepsItsModes) {
  const Tensor w = leaf({2});
  on_threads([&](int i) {
    NoGradGuard mode(i % 2 == 0);
    for (int r = 0; r < kRounds; ++r) EXPECT_EQ((w * w).requires_grad(), i % 2 == 0);
  });
}

struct CountingHook final : PostAccumulateHook {
  explicit CountingHook(std::atomic<int>* n) : n_(n) {}
  void call(const Tensor&) override { ++*n_; }
  std::atomic<int>* n_;
};

TEST(Threads, HooksOfALeafRunForEachPass) {
  const Tensor w = leaf({2});
  std::atomic<int> calls{0};
  add_post_accumulate_hook(w, make_intrusive<CountingHook>(&calls));
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) sum(w * 2.0).backward();
  });
  EXPECT_EQ(calls.load(), kThreads * kRounds);
}

// A pass inside a pass, on every thread.
struct Nested final : Node {
  explicit Nested(const Tensor& leaf) : leaf_(leaf) {}
  variable_list apply(variable_list&& grads) override {
    NoGradGuard grad(true);
    sum(leaf_ * leaf_).backward();
    return std::move(grads);
  }
  const char* name() const override { return "Nested"; }
  Tensor leaf_;
};

TEST(Threads, PassesInsidePasses) {
  const Tensor inner = leaf({3}), outer = leaf({1});
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) {
      auto node = make_intrusive<Nested>(inner);
      node->add_edge(gradient_edge(outer));
      run_backward({{node, 0}}, {doubles({5})}, {}, {});
    }
  });
  EXPECT_EQ(values(inner.grad()), (Numbers{6.0 * kThreads * kRounds}));
  EXPECT_EQ(values(outer.grad()), (Numbers{5.0 * kThreads * kRounds}));
}

TEST(Threads, SecondOrderOnSharedLeaves) {
  const Tensor w = leaf({2});
  on_threads([&](int) {
    for (int r = 0; r < kRounds; ++r) {
      const Tensor y = sum(w * w * w);
      const Tensor g = grad({&y, 1}, {&w, 1}, {}, true, true)[0];
      sum(g).backward();
    }
  });
  EXPECT_EQ(values(w.grad()), (Numbers{12.0 * kThreads * kRounds}));
}

}  // namespace
}  // namespace tessera::autograd
