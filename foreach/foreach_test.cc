// Lists: each element is what the operator of the same name gives for it; lengths, writes in place, derivatives.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "foreach/foreach.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;
using Scalars = std::vector<Scalar>;

Tensor doubles(const Numbers& v) {
  const int64_t size[] = {static_cast<int64_t>(v.size())};
  Tensor t = empty_kernel(size, DType::kFloat64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}

void expect_values(const Tensors& got, const std::vector<Numbers>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor t = contiguous(to(got[i], DType::kFloat64));
    ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted[i].size())) << i;
    for (int64_t k = 0; k < t.numel(); ++k)
      EXPECT_DOUBLE_EQ(t.data<double>()[k], wanted[i][static_cast<size_t>(k)]) << "tensor " << i << ", element " << k;
  }
}

void expect_error(const std::function<void()>& f, const char* text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what(); }
}

// Three sizes, one of them none.
Tensors some() { return {doubles({1, 2}), doubles({}), doubles({4, 9, 16})}; }

TEST(Lists, WithANumber) {
  expect_values(_foreach_add(some(), Scalar(0.5)), {{1.5, 2.5}, {}, {4.5, 9.5, 16.5}});
  expect_values(_foreach_sub(some(), Scalar(1)), {{0, 1}, {}, {3, 8, 15}});
  expect_values(_foreach_mul(some(), Scalar(-2)), {{-2, -4}, {}, {-8, -18, -32}});
  expect_values(_foreach_div(some(), Scalar(4)), {{0.25, 0.5}, {}, {1, 2.25, 4}});
  expect_values(_foreach_pow(some(), Scalar(2)), {{1, 4}, {}, {16, 81, 256}});
  expect_values(_foreach_pow(Scalar(2), Tensors{doubles({0, 3}), doubles({-1})}), {{1, 8}, {0.5}});
  expect_values(_foreach_maximum(some(), Scalar(5)), {{5, 5}, {}, {5, 9, 16}});
  expect_values(_foreach_clamp_max(some(), Scalar(5)), {{1, 2}, {}, {4, 5, 5}});
}

TEST(Lists, WithANumberForEach) {
  const Scalars s = {10, 20, 0.5};
  expect_values(_foreach_add(some(), s), {{11, 12}, {}, {4.5, 9.5, 16.5}});
  expect_values(_foreach_sub(some(), s), {{-9, -8}, {}, {3.5, 8.5, 15.5}});
  expect_values(_foreach_mul(some(), s), {{10, 20}, {}, {2, 4.5, 8}});
  expect_values(_foreach_pow(some(), s), {{1, 1024}, {}, {2, 3, 4}});
  expect_values(_foreach_minimum(some(), s), {{1, 2}, {}, {0.5, 0.5, 0.5}});
}

TEST(Lists, WithATensorOfOneElement) {
  const Tensor number = scalar_to_tensor(Scalar(3), DType::kFloat64);
  expect_values(_foreach_add(some(), number, Scalar(2)), {{7, 8}, {}, {10, 15, 22}});
  expect_values(_foreach_mul(some(), number), {{3, 6}, {}, {12, 27, 48}});
  expect_error([&] { _foreach_mul(some(), doubles({1, 2})); }, "scalar tensor expected to be 0 dim but it has 1");
}

TEST(Lists, WithLists) {
  const Tensors other = {doubles({10, 20}), doubles({}), doubles({2, 3, 4})};
  expect_values(_foreach_add(some(), other, Scalar(2)), {{21, 42}, {}, {8, 15, 24}});
  expect_values(_foreach_sub(some(), other), {{-9, -18}, {}, {2, 6, 12}});
  expect_values(_foreach_div(some(), other), {{0.1, 0.1}, {}, {2, 3, 4}});
  expect_values(_foreach_maximum(some(), other), {{10, 20}, {}, {4, 9, 16}});
  // self + value * a * b, self + value * a / b, self + weight * (other - self)
  expect_values(_foreach_addcmul(some(), other, some(), Scalar(0.5)), {{6, 22}, {}, {8, 22.5, 48}});
  expect_values(_foreach_addcdiv(some(), other, some(), Scalars{1, 1, 4}), {{11, 12}, {}, {6, 9 + 4.0 / 3, 17}});
  expect_values(_foreach_addcmul(some(), other, some(), doubles({1, 0, -1})), {{11, 42}, {}, {-4, -18, -48}});
  expect_values(_foreach_lerp(some(), other, Scalar(0.5)), {{5.5, 11}, {}, {3, 6, 10}});
}

TEST(Lists, OfOneArgument) {
  expect_values(_foreach_sqrt(some()), {{1, std::sqrt(2.0)}, {}, {2, 3, 4}});
  expect_values(_foreach_neg(some()), {{-1, -2}, {}, {-4, -9, -16}});
  expect_values(_foreach_norm(Tensors{doubles({3, 4}), doubles({-2})}), {{5}, {2}});
  expect_values(_foreach_norm(Tensors{doubles({3, -4}), doubles({-2})}, Scalar(1)), {{7}, {2}});
  expect_values(_foreach_max(Tensors{doubles({3, 4}), doubles({-2})}), {{4}, {-2}});
}

TEST(Lists, EachElementFollowsItsOwnRules) {
  const Tensors mixed = {ones({2}, DType::kInt64), ones({2}, DType::kFloat32), doubles({1, 1})};
  const Tensors r = _foreach_add(mixed, Scalar(0.5));
  const DType wanted[] = {DType::kFloat32, DType::kFloat32, DType::kFloat64};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(r[i].dtype(), wanted[i]) << i;
  expect_values(r, {{1.5, 1.5}, {1.5, 1.5}, {1.5, 1.5}});
  // Broadcast, and other strides.
  const Tensors square = {view(doubles({1, 2, 3, 4}), {2, 2})};
  expect_values(_foreach_mul(square, Tensors{doubles({10, 100})}), {{10, 200, 30, 400}});
  expect_values(_foreach_add(Tensors{transpose(square[0], 0, 1)}, square), {{2, 5, 5, 8}});
}

TEST(Lists, LengthsMustBeTheSame) {
  const Tensors two = {doubles({1}), doubles({2})};
  expect_error([&] { _foreach_add(some(), two); }, "Tensor lists must have the same number of tensors, got 3 and 2");
  expect_error(
      [&] {
        _foreach_mul(two, Scalars{1, 2, 3});
      },
      "Tensor list must have same number of elements as scalar list, got 2 and 3");
  expect_error([&] { _foreach_addcmul(two, two, some(), Scalar(1)); },
               "Tensor lists must have the same number of tensors, got 2 and 3");
  expect_error([&] { _foreach_exp(Tensors{}); }, "Tensor list must have at least one tensor.");
  const Tensors written = {doubles({1}), doubles({2})};
  expect_error([&] { _foreach_add_(written, some()); }, "Tensor lists must have the same number of tensors");
  expect_values(written, {{1}, {2}});
}

TEST(Lists, InPlace) {
  const Tensors t = some(), alias = t;
  const uint32_t before = t[2].version();
  _foreach_add_(t, Scalar(1));
  expect_values(alias, {{2, 3}, {}, {5, 10, 17}});
  EXPECT_GT(t[2].version(), before);
  _foreach_mul_(t, Scalars{2, 3, -1});
  expect_values(alias, {{4, 6}, {}, {-5, -10, -17}});
  _foreach_sub_(t, t);
  expect_values(alias, {{0, 0}, {}, {0, 0, 0}});
  _foreach_copy_(t, some());
  _foreach_addcmul_(t, t, t, Scalar(1));
  expect_values(alias, {{2, 6}, {}, {20, 90, 272}});
  _foreach_zero_(t);
  expect_values(alias, {{0, 0}, {}, {0, 0, 0}});
}

TEST(Lists, ATensorThatIsThereTwiceIsWrittenTwice) {
  const Tensor x = doubles({1, 2});
  _foreach_mul_(Tensors{x, x}, Scalars{2, 5});
  expect_values({x}, {{10, 20}});
}

TEST(Lists, GradientsGoThroughEachElement) {
  const Tensors x = {doubles({1, 2}).requires_grad_(), doubles({3}), doubles({4}).requires_grad_()};
  const Tensors y = _foreach_mul(_foreach_pow(x, Scalar(2)), Scalars{1, 10, 100});
  EXPECT_TRUE(y[0].requires_grad());
  EXPECT_FALSE(y[1].requires_grad());
  (sum(y[0]) + sum(y[1]) + sum(y[2])).backward();
  expect_values({x[0].grad(), x[2].grad()}, {{2, 4}, {800}});
  EXPECT_FALSE(x[1].grad().defined());
}

TEST(Lists, GradientsGoToBothLists) {
  const Tensors a = {doubles({1, 2}).requires_grad_(), doubles({3}).requires_grad_()};
  const Tensors b = {doubles({5, 6}).requires_grad_(), doubles({7}).requires_grad_()};
  const Tensors y = _foreach_lerp(_foreach_mul(a, b), b, Scalar(0.25));  // 0.75 a b + 0.25 b
  (sum(y[0]) + sum(y[1])).backward();
  expect_values({a[0].grad(), a[1].grad()}, {{3.75, 4.5}, {5.25}});
  expect_values({b[0].grad(), b[1].grad()}, {{1, 1.75}, {2.5}});
}

TEST(Lists, WritesInPlaceAreRecorded) {
  const Tensors x = {doubles({1, 2}).requires_grad_(), doubles({3}).requires_grad_()};
  expect_error([&] { _foreach_add_(x, Scalar(1)); },
               "a leaf Variable that requires grad is being used in an in-place operation.");
  const Tensors y = _foreach_mul(x, Scalar(1));
  _foreach_mul_(y, Scalars{3, 4});
  (sum(y[0]) + sum(y[1])).backward();
  expect_values({x[0].grad(), x[1].grad()}, {{3, 3}, {4}});
}

}  // namespace
}  // namespace tessera
