// Forward mode in C++: levels, duals, views and in-place writes, both modes at once, threads.
#include <thread>

#include "autograd/autograd.h"
#include "autograd/forward_ad.h"
#include "autograd/function.h"
#include "autograd/tests/testing.h"
#include "gtest/gtest.h"

namespace tessera::autograd {
namespace {

using forward_ad::DualLevel;
using forward_ad::make_dual;
using forward_ad::unpack_dual;

Numbers tangent(const Tensor& t) { return values(unpack_dual(t).tangent); }

TEST(Forward, ChainsOfOperators) {
  DualLevel level;
  const Tensor x = make_dual(doubles({1, 2}), doubles({1, 10}));
  EXPECT_EQ(tangent(x * x + 3.0 * x), (Numbers{5, 70}));
  EXPECT_EQ(values(unpack_dual(x * x).primal), (Numbers{1, 4}));
  EXPECT_EQ(tangent(doubles({1, 2}) + 1.0), Numbers());
  EXPECT_EQ(tangent(sum(x)), (Numbers{11}));
  NoGradGuard no_grad;  // not forward mode's business
  EXPECT_EQ(tangent(x + 1.0), (Numbers{1, 10}));
}

TEST(Forward, LevelsEndAndDoNotNest) {
  expect_error([] { make_dual(doubles({1}), doubles({1})); }, "no level exists");
  expect_error([] { forward_ad::exit_dual_level(); }, "no level is open");
  Tensor kept, plain = doubles({1, 1});
  {
    DualLevel level;
    expect_error([] { forward_ad::enter_dual_level(); }, "Nested forward mode");
    kept = make_dual(doubles({2, 3}), doubles({1, 1})) * 2.0;
    copy_(plain, kept);
    EXPECT_TRUE(may_have_tangent(plain));
    expect_error([&] { make_dual(doubles({1, 2}), doubles({1})); }, "different size");
    expect_error([&] { make_dual(kept, doubles({1, 1})); }, "has a tangent of the same level");
  }
  EXPECT_FALSE(may_have_tangent(plain));
  EXPECT_FALSE(may_have_tangent(kept));
  DualLevel level;
  EXPECT_EQ(tangent(kept), Numbers());
  EXPECT_EQ(tangent(kept * 2.0), Numbers());
}

TEST(Forward, WritesThroughViewsReachTheBase) {
  DualLevel level;
  const Tensor base = doubles({1, 2, 3, 4}), before = slice(base, 0, 2, 4);
  copy_(slice(base, 0, 1, 3), make_dual(doubles({7, 8}), doubles({1, 2})));
  EXPECT_EQ(tangent(base), (Numbers{0, 1, 2, 0}));
  EXPECT_EQ(tangent(before * 2.0), (Numbers{4, 0}));  // a view that was there before
  mul_(base, 10.0);
  EXPECT_EQ(tangent(before * 1.0), (Numbers{20, 0}));
  zero_(before);
  EXPECT_EQ(tangent(base), (Numbers{0, 10, 0, 0}));
}

TEST(Forward, TangentsThatAreSharedAreNotWritten) {
  DualLevel level;
  const Tensor x = make_dual(doubles({1, 2}), doubles({1, 1}));
  const Tensor y = x + 1.0;  // the same tangent
  mul_(y, 5.0);
  EXPECT_EQ(tangent(y), (Numbers{5, 5}));
  EXPECT_EQ(tangent(x), (Numbers{1, 1}));
}

TEST(Forward, OverAndUnderReverse) {
  DualLevel level;
  const Tensor x = leaf({2, 3}), v = leaf({1, 1});
  const Tensor d = make_dual(x, v);
  const Tensor y = exp(d);  // saves its result
  const Tensor g = grad({&y, 1}, {&d, 1}, std::vector<Tensor>{ones_like(x)}, true)[0];
  EXPECT_EQ(tangent(g), values(exp(x)));
  const Tensor t = unpack_dual(y).tangent;
  const variable_list of = grad({&t, 1}, std::vector<Tensor>{x, v}, std::vector<Tensor>{ones_like(x)});
  EXPECT_EQ(values(of[0]), values(exp(x)));
  EXPECT_EQ(values(of[1]), values(exp(x)));
}

TEST(Forward, SwitchedOff) {
  DualLevel level;
  const Tensor x = make_dual(doubles({1, 2}), doubles({1, 1}));
  const forward_ad::ForwardGradMode off(false);
  EXPECT_EQ(tangent(x * 2.0), Numbers());
}

TEST(Forward, ThreadsHaveLevelsOfTheirOwn) {
  DualLevel level;
  const Tensor x = make_dual(doubles({1, 2}), doubles({1, 1}));
  Tensor other;
  std::thread([&] {
    EXPECT_EQ(forward_ad::current_dual_level(), -1);
    other = x * 3.0;  // tangents go where tensors go
    DualLevel own;
    EXPECT_EQ(tangent(make_dual(doubles({1}), doubles({4})) * 2.0), (Numbers{8}));
  }).join();
  EXPECT_EQ(tangent(other), (Numbers{3, 3}));
}

struct Power : Function<Power> {  // x^n, and how far x is from 1
  static variable_list forward(AutogradContext* ctx, const Tensor& x, int64_t n) {
    ctx->saved_data["n"] = Value::of(n);
    ctx->save_for_backward({x});
    ctx->save_for_forward({x});
    return {pow(x, n), x - 1.0};
  }
  static Tensor slope(AutogradContext* ctx) {
    const int64_t n = ctx->saved_data["n"].integer();
    return pow(ctx->get_saved_variables()[0], n - 1) * static_cast<double>(n);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * slope(ctx) + grads[1], Tensor()};
  }
  static variable_list jvp(AutogradContext* ctx, variable_list tangents) {
    EXPECT_EQ(tangents.size(), 2U);
    EXPECT_FALSE(tangents[1].defined());
    return {tangents[0] * slope(ctx), tangents[0]};
  }
};
struct Backwards : Function<Backwards> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2.0; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2.0}; }
};

TEST(Forward, CustomFunctions) {
  DualLevel level;
  const Tensor x = leaf({1, 2}), d = make_dual(x, doubles({1, 10}));
  const variable_list y = Power::apply(d, int64_t{3});
  EXPECT_EQ(values(unpack_dual(y[0]).primal), (Numbers{1, 8}));
  EXPECT_EQ(tangent(y[0]), (Numbers{3, 120}));
  EXPECT_EQ(tangent(y[1]), (Numbers{1, 10}));
  EXPECT_EQ(tangent(y[0] * 2.0), (Numbers{6, 240}));
  // The tangent is recorded, too.
  const Tensor along = sum(unpack_dual(y[0]).tangent);
  EXPECT_EQ(values(grad({&along, 1}, {&x, 1}, {}, true)[0]), (Numbers{6, 120}));
  const Tensor total = sum(y[0]);
  EXPECT_EQ(values(grad({&total, 1}, {&x, 1})[0]), (Numbers{3, 12}));
}
TEST(Forward, CustomFunctionsWithoutJvpRefuseTangents) {
  DualLevel level;
  EXPECT_THROW(Backwards::apply(make_dual(doubles({1}), doubles({1}))), NotImplementedError);
  EXPECT_EQ(values(Backwards::apply(doubles({1}))), (Numbers{2}));
  EXPECT_EQ(tangent(make_dual(doubles({1}), doubles({1})) * 2.0), (Numbers{2}));  // nothing stays switched off
}

}  // namespace
}  // namespace tessera::autograd
