// Forward mode in C++: levels, duals, views and in-place writes, both modes at once, threads.
#include <thread>

#include "autograd/autograd.h"
#include "autograd/forward_ad.h"
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

}  // namespace
}  // namespace tessera::autograd
