// Custom functions in C++: what is saved, marked, materialised and checked.
#include "autograd/function.h"

#include <string>

#include "autograd/autograd.h"
#include "autograd/engine.h"
#include "autograd/tests/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

struct Scaled : Function<Scaled> {  // rate * exp(x)
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double rate) {
    EXPECT_FALSE(grad_mode_enabled());
    const Tensor y = exp(x);
    ctx->save_for_backward({x, y, Tensor()});
    ctx->saved_data["rate"] = Value::of(rate);
    return y * rate;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    EXPECT_FALSE(saved[2].defined());
    return {grads[0] * exp(saved[0]) * ctx->saved_data["rate"].number(), Tensor()};
  }
};

TEST(Function, FirstAndSecondDerivatives) {
  const Tensor x = leaf({0, 1});
  const Tensor y = sum(Scaled::apply(x, 3.0));
  const Tensor g = grad({&y, 1}, {&x, 1}, {}, true, true)[0];
  EXPECT_EQ(values(g), values(exp(detach(x)) * 3.0));
  const Tensor s = sum(g);
  EXPECT_EQ(values(grad({&s, 1}, {&x, 1})[0]), values(g));
  y.backward();
  expect_error([&] { y.backward(); }, "second time");
}

TEST(Function, NodesAreNamedAfterTheirFunction) {
  const Tensor y = Scaled::apply(leaf({1}), 1.0);
  EXPECT_STREQ(grad_fn(y)->name(), "Scaled");
  EXPECT_FALSE(Scaled::apply(doubles({1}), 1.0).requires_grad());
  NoGradGuard no_grad;
  EXPECT_FALSE(Scaled::apply(leaf({1}), 1.0).requires_grad());
}

TEST(Function, SavedTensorsNoticeWrites) {
  const Tensor x = leaf({1}) * 1.0;
  const Tensor y = Scaled::apply(x, 1.0);
  mul_(x, 2.0);
  expect_error([&] { y.backward(); }, "modified by an inplace operation");
}

struct Halve : Function<Halve> {
  static Tensor forward(AutogradContext* ctx, const Tensor& t) {
    div_(t, doubles({2}));
    ctx->mark_dirty({t});
    return t;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 0.5}; }
};

TEST(Function, WritesInPlace) {
  const Tensor x = leaf({4});
  const Tensor base = x * 1.0;
  const Tensor same = Halve::apply(base);
  EXPECT_TRUE(same.is_same(base));
  EXPECT_EQ(values(same), (Numbers{2}));
  same.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{0.5}));
  expect_error([&] { Halve::apply(leaf({1})); }, "a leaf Variable that requires grad has been used in an in-place");
}

struct Forgetful : Function<Forgetful> {  // says that it wrote, and returns something else
  static Tensor forward(AutogradContext* ctx, const Tensor& t) {
    ctx->mark_dirty({t});
    return t * 2.0;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return grads; }
};

TEST(Function, WhatIsMarkedDirtyHasToBeReturned) {
  expect_error([] { Forgetful::apply(leaf({1}) * 1.0); }, "marked as dirty");
}

struct Pair : Function<Pair> {
  static variable_list forward(AutogradContext* ctx, const Tensor& a, TensorList more, bool materialize) {
    ctx->set_materialize_grads(materialize);
    const Tensor count = full_like(a, Scalar(7.0));
    ctx->mark_non_differentiable({count});
    return {a * 2.0, more[0] * 3.0, count};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    log = std::string() + (grads[0].defined() ? "1" : "0") + (grads[1].defined() ? "1" : "0") + " " +
          (ctx->needs_input_grad(0) ? "1" : "0") + (ctx->needs_input_grad(1) ? "1" : "0") +
          (ctx->needs_input_grad(2) ? "1" : "0") + (ctx->needs_input_grad(3) ? "1" : "0");
    return {grads[0].defined() ? grads[0] * 2.0 : Tensor(), grads[1].defined() ? grads[1] * 3.0 : Tensor(), Tensor(),
            Tensor()};
  }
  inline static std::string log;
};

TEST(Function, ListsMarksAndMissingGradients) {
  const Tensor a = leaf({1}), b = leaf({1}), c = doubles({1});
  const Tensor more[] = {b, c};
  variable_list r = Pair::apply(a, TensorList(more), false);
  EXPECT_FALSE(r[2].requires_grad());
  r[1].backward();
  EXPECT_EQ(Pair::log, "01 1100");
  EXPECT_FALSE(a.grad().defined());
  EXPECT_EQ(values(b.grad()), (Numbers{3}));
  r = Pair::apply(a, TensorList(more), true);
  r[1].backward();
  EXPECT_EQ(Pair::log, "11 1100");
  EXPECT_EQ(values(a.grad()), (Numbers{0}));
}

struct Wrong : Function<Wrong> {
  static Tensor forward(AutogradContext*, const Tensor& t, int64_t) { return t * 2.0; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return many ? variable_list{grads[0], grads[0], grads[0]} : variable_list{grads[0], grads[0]};
  }
  inline static bool many = false;
};

TEST(Function, GradientsAreCounted) {
  Wrong::many = true;
  expect_error([] { Wrong::apply(leaf({1}), 1).backward(); }, "incorrect number of gradients (expected 2, got 3)");
  Wrong::many = false;
  expect_error([] { Wrong::apply(leaf({1}), 1).backward(); }, "different from None at position 2");
}

struct Same : Function<Same> {
  static Tensor forward(AutogradContext*, const Tensor& t) { return t; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 10.0}; }
};

TEST(Function, AnInputThatIsReturnedIsAView) {
  const Tensor x = leaf({1});
  const Tensor y = Same::apply(x);
  EXPECT_FALSE(y.is_same(x));
  y.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{10}));
  expect_error([&] { mul_(Same::apply(x), 2.0); }, "custom Function");
}

// Its backward is a backward of the next one, down to zero.
struct Inward : Function<Inward> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t left, std::vector<int64_t>* seen) {
    ctx->saved_data["left"] = Value::of(left);
    ctx->saved_data["seen"] = Value::of(reinterpret_cast<int64_t>(seen));
    return x * 1.0;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const int64_t left = ctx->saved_data["left"].integer(), seen = ctx->saved_data["seen"].integer();
    reinterpret_cast<std::vector<int64_t>*>(seen)->push_back(left);
    TESSERA_CHECK(left != -1, "the innermost one fails");
    if (left == 0) return {grads[0], Tensor(), Tensor()};
    const NoGradGuard on(true);
    const Tensor x = leaf({1});
    Inward::apply(x, left > 0 ? left - 1 : left + 1, reinterpret_cast<std::vector<int64_t>*>(seen)).backward();
    return {grads[0] + x.grad(), Tensor(), Tensor()};
  }
};

TEST(Function, PassesInsideOfPassesAreNotLimitedByTheStack) {
  constexpr int64_t kDeep = 10000;
  std::vector<int64_t> seen;
  const Tensor x = leaf({1});
  Inward::apply(x, kDeep, &seen).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{kDeep + 1}));
  EXPECT_EQ(seen.size(), static_cast<size_t>(kDeep + 1));
  expect_error([&] { Inward::apply(x, -200, &seen).backward(); }, "the innermost one fails");
  EXPECT_FALSE(backward_is_running());
}

}  // namespace
}  // namespace tessera::autograd
