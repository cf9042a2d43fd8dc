// Comparisons, logic, tests of numbers, bits: results are bool or integers whatever the inputs, and how they are
// stored.
#include <cstdint>
#include <limits>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Comparison, ResultsAreBool) {
  const Tensor a = of<float>({1, 2, kNan, kInf}), b = of<float>({2, 2, kNan, 1});
  expect<bool>(eq(a, b), {false, true, false, false});
  expect<bool>(ne(a, b), {true, false, true, true});
  expect<bool>(lt(a, b), {true, false, false, false});
  expect<bool>(le(a, b), {true, true, false, false});
  expect<bool>(gt(a, b), {false, false, false, true});
  expect<bool>(a >= b, {false, true, false, true});
  expect<bool>(not_equal(a, 2), {true, false, true, true});
}

TEST(Comparison, MixedTypesCompareByValue) {
  expect<bool>(eq(of<int32_t>({1, 2}), of<float>({1, 2.5f})), {true, false});
  expect<bool>(lt(of<int64_t>({1, 2}), 1.5), {true, false});
  expect<bool>(lt(of<int8_t>({-1}), of<uint8_t>({200})), {true});
  expect<bool>(eq(of<bool>({true, false}), 1), {true, false});
}

TEST(Comparison, BroadcastAndLayouts) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect<bool>(gt(m, of<int32_t>({3, 4}, {2, 1})), {false, false, false, false, true, true}, {2, 3});
  expect<bool>(gt(transpose(m, 0, 1), 3), {false, true, false, true, false, true}, {3, 2});
  expect<bool>(eq(zeros({0, 2}), 0), {}, {0, 2});
  expect_error<Error>(
      [&] {
        eq(m, of<int32_t>({1, 2}));
      },
      "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1");
}

TEST(Comparison, InPlaceKeepsTheDtype) {
  const Tensor a = of<float>({1, 5, 3});
  EXPECT_TRUE(gt_(a, 2).is_same(a));
  expect<float>(a, {0, 1, 1});
  const Tensor i = of<int32_t>({7, 0});
  logical_not_(i);
  expect<int32_t>(i, {0, 1});
}

TEST(Comparison, Out) {
  const Tensor a = of<float>({1, 2}), b = of<float>({2, 2});
  const Tensor flags = zeros({2}, DType::kBool), bytes = zeros({2}, DType::kUInt8), floats = zeros({2});
  eq_out(flags, a, b);
  expect<bool>(flags, {false, true});
  eq_out(bytes, a, b);
  expect<uint8_t>(bytes, {0, 1});
  eq_out(floats, a, b);
  expect<float>(floats, {0, 1});
  Warnings warnings;
  const Tensor small = zeros({1}, DType::kBool);
  lt_out(small, a, b);
  expect<bool>(small, {true, false});
  EXPECT_TRUE(warnings.has(kResized));
  expect_error<Error>([&] { eq_out(expand(zeros({1}, DType::kBool), {2}), a, b); }, kSelfOverlap);
  const Tensor m = of<float>({1, 2, 3});
  expect_error<Error>([&] { eq_out(slice(m, 0, 1, 3), slice(m, 0, 0, 2), b); }, kOneMemory);
}

TEST(Comparison, Logic) {
  const Tensor a = of<int32_t>({0, 3, 0, 4}), b = of<float>({0, 0, 0.5f, kNan});
  expect<bool>(logical_and(a, b), {false, false, false, true});
  expect<bool>(logical_or(a, b), {false, true, true, true});
  expect<bool>(logical_xor(a, b), {false, true, true, false});
  expect<bool>(logical_not(b), {true, true, false, false});
}

TEST(Comparison, KindsOfNumbers) {
  const Tensor a = of<float>({0, kNan, kInf, -kInf});
  expect<bool>(isnan(a), {false, true, false, false});
  expect<bool>(isinf(a), {false, false, true, true});
  expect<bool>(isfinite(a), {true, false, false, false});
  expect<bool>(isposinf(a), {false, false, true, false});
  expect<bool>(isneginf(a), {false, false, false, true});
  expect<bool>(isfinite(of<int64_t>({1})), {true});
  expect<bool>(isnan(of<int64_t>({1})), {false});
}

TEST(Comparison, Bits) {
  const Tensor a = of<int32_t>({12, -1}), b = of<int32_t>({10, 5});
  expect<int32_t>(bitwise_and(a, b), {8, 5});
  expect<int32_t>(bitwise_or(a, b), {14, -1});
  expect<int32_t>(bitwise_xor(a, b), {6, -6});
  expect<int32_t>(bitwise_not(a), {-13, 0});
  expect<bool>(bitwise_not(of<bool>({true, false})), {false, true});
  expect<bool>(bitwise_and(of<bool>({true, true}), of<bool>({true, false})), {true, false});
  expect<int16_t>(bitwise_or(of<int16_t>({1}), of<uint8_t>({6})), {7});
  expect<int32_t>(bitwise_left_shift(a, 2), {48, -4});
  expect<int32_t>(bitwise_right_shift(a, 1), {6, -1});  // arithmetic: the sign stays
  const Tensor x = of<int32_t>({6, 3});
  bitwise_and_(x, 2);
  expect<int32_t>(x, {2, 2});
  expect_error<NotImplementedError>([] { bitwise_and(of<float>({1}), of<float>({1})); }, "not implemented for 'Float'");
}

TEST(Comparison, Meta) {
  const Tensor r = lt(meta({3, 1}), meta({2}, DType::kInt64));
  EXPECT_TRUE(r.is_meta());
  EXPECT_EQ(r.dtype(), DType::kBool);
  EXPECT_EQ(shape(r), (IntVector{3, 2}));
  expect_error<Error>(
      [] {
        eq(meta({2}), of<float>({1, 2}));
      },
      "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!");
}

}  // namespace
}  // namespace tessera
