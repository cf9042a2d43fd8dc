#include "compile/block_program.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tensor/ops/api.h"

namespace tessera::compile {
namespace {

using Args = std::span<const Tensor>;

PointwiseCall seen(const std::function<Tensor(Args)>& run, size_t tensors) {
  const auto c = observe(run, tensors);
  EXPECT_TRUE(c.has_value());
  return *c;
}
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && std::ranges::equal(a.sizes(), b.sizes()) && a.is_contiguous() && b.is_contiguous() &&
         !std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.numel() * a.item_size()));
}
Tensor wave(IntList sizes, DType d, double scale) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return sin(mul(arange(Scalar(n), d), Scalar(scale))).reshape(sizes);
}

TEST(Observe, FindsTheCallOfAnOperator) {
  const PointwiseCall c = seen([](Args t) { return sub(t[1], t[0], 3); }, 2);
  EXPECT_EQ(c.inputs, (std::vector<int>{1, 0}));
  ASSERT_EQ(c.params.size(), 1u);
  EXPECT_EQ(c.params[0].to_double(), 3);
  const PointwiseCall n = seen([](Args t) { return mul(t[0], Scalar(2.5)); }, 1);
  EXPECT_EQ(n.inputs, (std::vector<int>{0, ~0}));
  EXPECT_EQ(n.numbers[0].to_double(), 2.5);
}
TEST(Observe, RefusesWhatIsNoSingleElementwiseCall) {
  EXPECT_FALSE(observe([](Args t) { return sigmoid(sigmoid(t[0])); }, 1));
  EXPECT_FALSE(observe([](Args t) { return t[0]; }, 1));
  EXPECT_FALSE(observe([](Args t) { return gt(t[0], t[1]); }, 2));
  EXPECT_FALSE(observe([](Args t) { return matmul(t[0], t[0]); }, 1));  // raises: (2, 3) times itself
  EXPECT_FALSE(observe([](Args t) { return add(t[0], ones({2, 3})); }, 1));
}

// tanh(sigmoid(a_0 + 2 b) * a_1 - n), for the parts a_0, a_1 of a.
struct Chain {
  BlockProgram p;
  Chain() {
    const int a0 = p.input(0, 0, 2), a1 = p.input(0, 1, 2), b = p.input(1), n = p.input(2);
    const auto call = [&](const PointwiseCall& c, std::vector<int> in) { return p.call(c, in); };
    const int x = call(seen([](Args t) { return add(t[0], t[1], 2); }, 2), {a0, b});
    const int y = call(seen([](Args t) { return sigmoid(t[0]); }, 1), {x});
    const int z = call(seen([](Args t) { return mul(t[0], t[1]); }, 2), {y, a1});
    const int w = call(seen([](Args t) { return sub(t[0], t[1]); }, 2), {z, n});
    p.output(call(seen([](Args t) { return tanh(t[0]); }, 1), {w}));
    p.output(y);
    p.finish();
  }
};

TEST(BlockProgram, GivesTheBitsOfItsOperators) {
  const Chain chain;
  for (const DType d : {DType::kFloat32, DType::kFloat64})
    for (const IntVector& sizes : {IntVector{1, 16}, IntVector{5, 7}, IntVector{3, 2049}, IntVector{40, 1000},
                                   IntVector{2, 3, 5}, IntVector{9}}) {
      IntVector wide = sizes;
      wide.back() *= 2;
      const Tensor a = wave(wide, d, 0.37), b = wave(sizes, d, 0.11), n = full({}, 0.25, d);
      const Tensor* in[] = {&a, &b, &n};
      Tensor out[2];
      ASSERT_TRUE(chain.p.run(in, out));
      const std::vector<Tensor> parts = chunk(a, 2, -1);
      const Tensor y = sigmoid(add(parts[0], b, 2));
      EXPECT_TRUE(same_bits(out[1], y));
      EXPECT_TRUE(same_bits(out[0], tanh(sub(mul(y, parts[1]), n))));
    }
}
// A number that is met after calls whose results are no longer needed: a block must find it as it was.
TEST(BlockProgram, KeepsNumbersForAllBlocks) {
  BlockProgram p;
  const int x = p.input(0);
  const PointwiseCall minus = seen([](Args t) { return sub(t[0], Scalar(0.2)); }, 1),
                      times = seen([](Args t) { return mul(t[0], t[1]); }, 2),
                      less = seen([](Args t) { return sub(t[0], Scalar(0.5)); }, 1);
  const int a = p.call(times, std::vector<int>{p.call(minus, std::vector<int>{x}), x});
  p.output(a);
  p.output(p.call(less, std::vector<int>{p.call(times, std::vector<int>{x, x})}));
  p.finish();
  const Tensor t = wave(IntVector{3, 5000}, DType::kFloat32, 0.3);
  const Tensor* in[] = {&t};
  Tensor out[2];
  ASSERT_TRUE(p.run(in, out));
  EXPECT_TRUE(same_bits(out[0], mul(sub(t, Scalar(0.2)), t)));
  EXPECT_TRUE(same_bits(out[1], sub(mul(t, t), Scalar(0.5))));
}
TEST(BlockProgram, LeavesOthersAlone) {
  const Chain chain;
  const Tensor a = wave(IntVector{4, 6}, DType::kFloat32, 0.37), b = wave(IntVector{4, 3}, DType::kFloat32, 0.11),
               n = full({}, 0.25);
  Tensor out[2];
  const auto fits = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
    const Tensor* in[] = {&x, &y, &z};
    return chain.p.run(in, out);
  };
  EXPECT_TRUE(fits(a, b, n));
  EXPECT_FALSE(fits(a, b.to(DType::kFloat64), n));
  EXPECT_FALSE(fits(a.to(DType::kFloat16), b.to(DType::kFloat16), n));
  EXPECT_FALSE(fits(a, wave(IntVector{3, 4}, DType::kFloat32, 0.1).t(), n));
  EXPECT_FALSE(fits(a, wave(IntVector{1, 3}, DType::kFloat32, 0.1), n));
  EXPECT_FALSE(fits(b, b, n));  // no two equal parts
  EXPECT_FALSE(fits(a, b, Tensor()));
  EXPECT_FALSE(fits(a.narrow(0, 0, 0), b.narrow(0, 0, 0), n));
}

}  // namespace
}  // namespace tessera::compile
