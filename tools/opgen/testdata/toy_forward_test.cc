// Generated rules of forward mode at work: one of each kind.
#include <algorithm>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/forward_ad.h"
#include "gtest/gtest.h"
#include "tools/opgen/testdata/toys.h"

namespace tessera {
namespace {

using autograd::forward_ad::DualLevel;
using autograd::forward_ad::make_dual;
using autograd::forward_ad::unpack_dual;
using Floats = std::vector<float>;
const int64_t k23[] = {2, 3}, k3[] = {3}, k22[] = {2, 2}, k2[] = {2};

Tensor make(IntList sizes, Floats values) {
  Tensor t = empty_kernel(sizes, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}
Floats values(const Tensor& t) { return t.defined() ? Floats(t.data<float>(), t.data<float>() + t.numel()) : Floats(); }
Floats tangent(const Tensor& t) { return values(unpack_dual(t).tangent); }

TEST(ToyForward, PointwiseAndMissingTangents) {
  DualLevel level;
  const Tensor a = make_dual(make(k3, {1, 2, 3}), make(k3, {1, 0, 1})), b = make(k3, {4, 5, 6});
  EXPECT_EQ(tangent(toy_mul(a, b)), (Floats{4, 0, 6}));
  EXPECT_EQ(tangent(toy_mul(a, a)), (Floats{2, 0, 6}));
  EXPECT_EQ(tangent(toy_add(b, a, 3)), (Floats{3, 0, 3}));
  EXPECT_EQ(tangent(toy_scale(a, 5)), (Floats{5, 0, 5}));
  EXPECT_EQ(tangent(toy_mul(b, b)), Floats());
}

TEST(ToyForward, CompositesAreWhatTheyCall) {
  DualLevel level;
  const Tensor a = make_dual(make(k3, {1, 2, 3}), make(k3, {1, 1, 2}));
  EXPECT_EQ(tangent(toy_twice(a)), (Floats{2, 2, 4}));
  EXPECT_EQ(tangent(toy_shifted(a)), (Floats{3, 5, 14}));
}

TEST(ToyForward, ListsAndWrittenRules) {
  DualLevel level;
  const Tensor a = make_dual(make(k3, {1, 2, 3}), make(k3, {1, 1, 2})), b = make(k3, {4, 5, 6});
  EXPECT_EQ(tangent(toy_join(std::vector<Tensor>{b, a})), (Floats{0, 0, 0, 1, 1, 2}));
  const Tensor weight = make_dual(make(k22, {1, 0, 0, 1}), make(k22, {1, 1, 0, 0}));
  EXPECT_EQ(tangent(toy_linear(make(k22, {1, 2, 3, 4}), weight)),
            tangent(toy_linear(make(k22, {1, 2, 3, 4}), weight, make(k2, {7, 7}))));
  EXPECT_EQ(tangent(toy_linear(make(k22, {1, 2, 3, 4}), weight)).size(), 4u);
}

TEST(ToyForward, ViewsShareTheTangent) {
  DualLevel level;
  const Tensor a = make_dual(make(k23, {1, 2, 3, 4, 5, 6}), make(k23, {1, 0, 0, 0, 1, 0}));
  const Tensor row = toy_row(a, 1);
  EXPECT_EQ(tangent(row), (Floats{0, 1, 0}));
  toy_scale_(row, 3);
  EXPECT_EQ(tangent(row), (Floats{0, 3, 0}));
  EXPECT_EQ(tangent(a), (Floats{1, 0, 0, 0, 3, 0}));
  EXPECT_EQ(tangent(toy_rows(a)[0]), (Floats{1, 0, 0}));
}

TEST(ToyForward, WritesInPlace) {
  DualLevel level;
  const Tensor x = make(k3, {1, 2, 3});
  const Tensor d = make_dual(make(k3, {2, 2, 2}), make(k3, {1, 2, 3}));
  toy_mul_(x, d);  // gets a tangent
  EXPECT_EQ(tangent(x), (Floats{1, 4, 9}));
  toy_mul_(x, x);
  EXPECT_EQ(tangent(x), (Floats{4, 32, 108}));
  toy_zero_(x);  // loses it
  EXPECT_EQ(tangent(x), (Floats{}));
  EXPECT_THROW(toy_scale_out(empty_kernel(k3, DType::kFloat32), d, 2), Error);
}

}  // namespace
}  // namespace tessera
