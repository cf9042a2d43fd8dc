// Generated derivatives at work: chains, lists, several outputs, joint formulas, in-place writes, out= errors.
#include <algorithm>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tools/opgen/testdata/toys.h"

namespace tessera {
namespace {

using Floats = std::vector<float>;
const int64_t k23[] = {2, 3}, k3[] = {3}, k22[] = {2, 2}, k2[] = {2};

Tensor make(IntList sizes, Floats values) {
  Tensor t = empty_kernel(sizes, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}
Tensor leaf(IntList sizes, Floats values) { return make(sizes, std::move(values)).requires_grad_(); }
Floats values(const Tensor& t) { return t.defined() ? Floats(t.data<float>(), t.data<float>() + t.numel()) : Floats(); }

TEST(ToyAutograd, ChainAndSavedValues) {
  Tensor a = leaf(k3, {1, 2, 3}), b = leaf(k3, {4, 5, 6});
  Tensor y = toy_scale(toy_mul(a, b), 2);
  EXPECT_TRUE(y.requires_grad());
  y.backward(make(k3, {1, 1, 1}));
  EXPECT_EQ(values(a.grad()), (Floats{8, 10, 12}));
  EXPECT_EQ(values(b.grad()), (Floats{2, 4, 6}));
}

TEST(ToyAutograd, NothingIsRecordedWithoutNeed) {
  Tensor a = leaf(k3, {1, 2, 3});
  {
    NoGradGuard no_grad;
    EXPECT_FALSE(toy_scale(a, 2).requires_grad());
  }
  EXPECT_FALSE(toy_scale(make(k3, {1, 2, 3}), 2).requires_grad());
}

TEST(ToyAutograd, InplaceSavesTheOriginalAndChecksLeaves) {
  Tensor a = leaf(k3, {1, 2, 3}), b = leaf(k3, {4, 5, 6});
  EXPECT_THROW(toy_mul_(a, b), Error);  // a leaf
  Tensor x = toy_scale(a, 1);
  toy_mul_(x, b);
  x.backward(make(k3, {1, 1, 1}));
  EXPECT_EQ(values(a.grad()), (Floats{4, 5, 6}));
  EXPECT_EQ(values(b.grad()), (Floats{1, 2, 3}));
  Tensor z = toy_scale(leaf(k3, {1, 2, 3}), 1);
  toy_zero_(z);  // not differentiable: the gradient of what was there is zero
  EXPECT_TRUE(z.requires_grad());
}

TEST(ToyAutograd, ModifiedSavedTensorIsNoticed) {
  Tensor a = leaf(k3, {1, 2, 3});
  Tensor b = make(k3, {1, 1, 1});
  Tensor y = toy_mul(a, b);
  toy_zero_(b);
  EXPECT_THROW(y.backward(make(k3, {1, 1, 1})), Error);
  Tensor twice = toy_mul(a, make(k3, {1, 1, 1}));
  twice.backward(make(k3, {1, 1, 1}));
  EXPECT_THROW(twice.backward(make(k3, {1, 1, 1})), Error);  // freed
}

TEST(ToyAutograd, ANodeIsNamedAfterAPlainNumber) {
  const Tensor a = leaf(k3, {1, 2, 3}), b = make(k3, {1, 1, 1});
  EXPECT_STREQ(autograd::grad_fn(toy_add(a, b))->name(), "ToyAddBackward0");
  EXPECT_STREQ(autograd::grad_fn(toy_add(a, Scalar(2)))->name(), "ToyAddBackward1");
}

TEST(ToyAutograd, OutFormsRefuse) {
  Tensor a = leaf(k3, {1, 2, 3}), out = empty_kernel(k3, DType::kFloat32);
  EXPECT_THROW(toy_scale_out(out, a, 2), Error);
  NoGradGuard no_grad;
  EXPECT_EQ(values(toy_scale_out(out, a, 2)), (Floats{2, 4, 6}));
}

TEST(ToyAutograd, ViewsListsAndSeveralOutputs) {
  Tensor a = leaf(k23, {1, 5, 3, 4, 2, 6});
  toy_row(a, 1).backward(make(k3, {7, 8, 9}));
  EXPECT_EQ(values(a.grad()), (Floats{0, 0, 0, 7, 8, 9}));
  a.set_grad(Tensor());
  Tensor x = leaf(k3, {1, 2, 3}), y = leaf(k3, {4, 5, 6});
  toy_join(std::vector<Tensor>{x, y}).backward(make(k23, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(x.grad()), (Floats{1, 2, 3}));
  EXPECT_EQ(values(y.grad()), (Floats{4, 5, 6}));
  auto [low, high] = toy_minmax(a);
  toy_add(low, high).backward(make(k3, {1, 2, 3}));
  EXPECT_EQ(values(a.grad()), (Floats{1, 2, 3, 1, 2, 3}));
}

TEST(ToyAutograd, JointFormulaComputesWhatIsAskedFor) {
  Tensor input = make(k22, {1, 2, 3, 4}), weight = leaf(k22, {1, 0, 0, 1}), bias = leaf(k2, {0, 0});
  toy_linear(input, weight, bias).backward(make(k22, {1, 0, 0, 1}));
  EXPECT_EQ(values(weight.grad()), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(values(bias.grad()), (Floats{1, 1}));
  EXPECT_FALSE(input.grad().defined());
  // A composite is differentiated through what it calls.
  Tensor a = leaf(k3, {1, 2, 3});
  toy_twice(a, a).backward(make(k3, {1, 1, 1}));
  EXPECT_EQ(values(a.grad()), (Floats{3, 5, 7}));
}

}  // namespace
}  // namespace tessera
