// Arithmetic, extremes, selection: promotion, in-place and out= forms, overlap, other devices, errors.
#include <cstdint>
#include <limits>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Arithmetic, Results) {
  const Tensor a = of<float>({1, 2, 3}), b = of<float>({4, 0.5f, -1});
  expect<float>(add(a, b), {5, 2.5f, 2});
  expect<float>(add(a, b, 2), {9, 3, 1});
  expect<float>(sub(a, b, 3), {-11, 0.5f, 6});
  expect<float>(rsub(a, b), {3, -1.5f, -4});
  expect<float>(mul(a, b), {4, 1, -3});
  expect<float>(div(a, b), {0.25f, 4, -3});
  expect<float>(10 - a, {9, 8, 7});
  expect<float>(-a, {-1, -2, -3});
  expect<float>(addcmul(a, a, b, 2), {9, 4, -3});
  expect<float>(addcdiv(a, a, b, 2), {1.5f, 10, -3});
  expect<float>(lerp(a, b, 0.5), {2.5f, 1.25f, 1});
  expect<float>(square(b), {16, 0.25f, 1});
  expect<float>(reciprocal(of<float>({4, -0.5f, 0})), {0.25f, -2, kInf});
}

TEST(Arithmetic, Promotion) {
  const Tensor i32 = of<int32_t>({3, -4}), i8 = of<int8_t>({5, 6}), u8 = of<uint8_t>({5, 6});
  expect<int32_t>(add(i32, i8), {8, 2});
  expect<int16_t>(add(i8, u8), {10, 12});                           // what holds int8 and uint8
  expect<int32_t>(add(i32, number<int64_t>(1)), {4, -3});           // without dimensions: the category alone
  expect<int32_t>(mul(i32, 2), {6, -8});                            // a number of the same category
  expect<float>(mul(i32, 0.5), {1.5f, -2});                         // a higher one: the default dtype
  expect<float>(add(of<float>({1}), number<double>(0.5)), {1.5f});  // float64 without dimensions beside float32
  expect<double>(add(of<float>({1}), of<double>({0.5})), {1.5});    // with dimensions
  expect<float>(div(i32, of<int32_t>({2, 8})), {1.5f, -0.5f});      // integers: true quotient
  expect<int64_t>(add(of<bool>({true, false}), number<int64_t>(2)), {3, 2});
  EXPECT_EQ(add(to(i32, DType::kFloat16), to(i32, DType::kBFloat16)).dtype(), DType::kFloat32);
  EXPECT_EQ(mul(of<float>({1}), Scalar(std::complex<double>(0, 1))).dtype(), DType::kComplex64);
}

TEST(Arithmetic, RoundedQuotients) {
  const Tensor a = of<int32_t>({7, -7, 7, -7}), b = of<int32_t>({2, 2, -2, -2});
  expect<int32_t>(floor_divide(a, b), {3, -4, -4, 3});
  expect<int32_t>(div(a, b, "floor"), {3, -4, -4, 3});
  expect<int32_t>(div(a, b, "trunc"), {3, -3, -3, 3});
  expect<int32_t>(remainder(a, b), {1, 1, -1, -1});  // the sign of the divisor
  expect<int32_t>(fmod(a, b), {1, -1, 1, -1});       // the sign of the dividend
  expect<float>(remainder(of<float>({5.5f, -5.5f}), 2), {1.5f, 0.5f});
  expect_error<Error>([&] { floor_divide(a, 0); }, "ZeroDivisionError");
  expect_error<Error>([&] { remainder(a, 0); }, "ZeroDivisionError");
  expect_error<Error>([&] { div(a, b, "up"); },
                      "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'");
}

TEST(Arithmetic, Powers) {
  expect<int64_t>(pow(of<int64_t>({2, -3, 0}), 3), {8, -27, 0});
  expect<float>(pow(of<float>({4, 9}), 0.5), {2, 3});
  expect<float>(pow(Scalar(2), of<float>({-1, 10})), {0.5f, 1024});
  expect<double>(float_power(of<int32_t>({2, 3}), 2), {4, 9});
  expect_error<Error>([] { pow(of<int32_t>({2}), -1); }, "Integers to negative integer powers are not allowed.");
}

TEST(Arithmetic, Extremes) {
  const Tensor a = of<float>({1, kNan, 3}), b = of<float>({2, 2, kNan});
  expect<float>(maximum(a, b), {2, kNan, kNan});
  expect<float>(fmax(a, b), {2, 2, 3});
  expect<float>(fmin(a, b), {1, 2, 3});
  expect<float>(clamp(of<float>({-2, 0.5f, 9, kNan}), -1, 1), {-1, 0.5f, 1, kNan});
  expect<int32_t>(clamp(of<int32_t>({-2, 5}), std::nullopt, 3), {-2, 3});
  expect<float>(clamp(of<int32_t>({-2, 5}), 0.5), {0.5f, 5});
  expect_error<Error>([&] { clamp(a); }, "torch.clamp: At least one of 'min' or 'max' must not be None");
}

TEST(Arithmetic, Selection) {
  const Tensor mask = of<bool>({true, false, true});
  expect<float>(where(mask, of<int32_t>({1, 2, 3}), of<float>({0.5f, 1.5f, 2.5f})), {1, 1.5f, 3});
  expect<int64_t>(where(mask)[0], {0, 2});
  expect<int32_t>(masked_fill(of<int32_t>({1, 2, 3}), mask, 9), {9, 2, 9});
  expect_error<Error>([] { masked_fill(of<float>({1}), of<int32_t>({1}), 0); },
                      "masked_fill_ only supports boolean masks, but got mask with dtype");
}

TEST(Arithmetic, Layouts) {
  const Tensor m = of<float>({1, 2, 3, 4, 5, 6}, {2, 3}), t = transpose(m, 0, 1);
  const Tensor twice = add(t, t);  // dense in another order: the result keeps it
  expect<float>(twice, {2, 8, 4, 10, 6, 12}, {3, 2});
  EXPECT_EQ(strides(twice), (IntVector{1, 3}));
  expect<float>(add(m, of<float>({10, 20}, {2, 1})), {11, 12, 13, 24, 25, 26}, {2, 3});
  expect<float>(mul(slice(m, 1, 0, 3, 2), 2), {2, 6, 8, 12}, {2, 2});
  const Tensor none = add(zeros({0, 3}), of<float>({1, 2, 3}));
  expect<float>(none, {}, {0, 3});
  expect_error<Error>(
      [] {
        add(zeros({2, 3}), zeros({2, 4}));
      },
      "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
}

TEST(Arithmetic, InPlace) {
  const Tensor a = of<int32_t>({1, 2, 3});
  const uint32_t before = a.version();
  EXPECT_TRUE(add_(a, a).is_same(a));
  expect<int32_t>(a, {2, 4, 6});
  EXPECT_GT(a.version(), before);
  expect_error<Error>([&] { add_(a, 0.5); }, "can't be cast to the desired output type");
  expect_error<Error>([&] { div_(a, a); }, "can't be cast to the desired output type");
  expect_error<Error>(
      [&] {
        add_(a, zeros({2, 3}, DType::kInt32));
      },
      "output with shape [3] doesn't match the broadcast shape [2, 3]");
  expect<int32_t>(a, {2, 4, 6});  // what is refused changes nothing
  const Tensor m = of<float>({1, 2, 3, 4}, {2, 2});
  add_(select(m, 1, 0), 10);  // through a view
  expect<float>(m, {11, 2, 13, 4}, {2, 2});
}

TEST(Arithmetic, Out) {
  const Tensor a = of<int32_t>({1, 2, 3}), b = of<int32_t>({4, 5, 6});
  const Tensor out = zeros({3}, DType::kFloat64), empty = zeros({0}, DType::kInt32), other = zeros({2}, DType::kInt32);
  Warnings warnings;
  EXPECT_TRUE(add_out(out, a, b).is_same(out));
  expect<double>(out, {5, 7, 9});
  add_out(empty, a, b);
  expect<int32_t>(empty, {5, 7, 9});
  EXPECT_EQ(warnings.count(), 0u);
  add_out(other, a, b);
  expect<int32_t>(other, {5, 7, 9});
  EXPECT_TRUE(warnings.has(std::string(kResized) + " since it had shape [2], which does not match the required output "
                                                   "shape [3]"));
  expect_error<Error>([&] { div_out(other, a, b); }, "can't be cast to the desired output type");
}

TEST(Arithmetic, Overlap) {
  const Tensor m = of<float>({1, 2, 3, 4}), wide = expand(of<float>({1}, {1}), {3});
  expect_error<Error>([&] { add_(wide, 1); }, kSelfOverlap);
  expect_error<Error>([&] { add_out(slice(m, 0, 1, 4), slice(m, 0, 0, 3), of<float>({1, 1, 1})); }, kOneMemory);
  expect_error<Error>([&] { mul_(slice(m, 0, 1, 4), slice(m, 0, 0, 3)); }, kOneMemory);
  expect<float>(m, {1, 2, 3, 4});
  mul_out(m, m, m);  // the same elements at the same places
  expect<float>(m, {1, 4, 9, 16});
}

TEST(Arithmetic, Meta) {
  const Tensor r = add(meta({2, 1}, DType::kInt32), meta({3}, DType::kFloat16));
  EXPECT_TRUE(r.is_meta());
  EXPECT_EQ(shape(r), (IntVector{2, 3}));
  EXPECT_EQ(r.dtype(), DType::kFloat16);
  EXPECT_EQ(shape(add(meta({2}), number<float>(1))), (IntVector{2}));  // numbers go with every device
  expect_error<Error>(
      [] {
        add(meta({2}), of<float>({1, 2}));
      },
      "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!");
}

TEST(Arithmetic, Errors) {
  const Tensor b = of<bool>({true});
  expect_error<Error>([&] { sub(b, b); }, "Subtraction, the `-` operator, with two bool tensors is not supported.");
  expect_error<Error>([&] { neg(b); }, "Negation, the `-` operator, on a bool tensor is not supported.");
  expect_error<Error>([] { add(of<int32_t>({1}), of<int32_t>({1}), 0.5); },
                      "For integral input tensors, argument alpha must not be a floating point number.");
  expect_error<Error>([] { lerp(of<float>({1}), of<double>({1}), 0.5); }, "for `end` but got dtype");
}

TEST(Arithmetic, ManyElementsSameBits) {
  const Tensor a = rough({300001}), b = rough({300001});
  expect_same_bits([&] { return addcmul(a, a, b, 0.3); });
  expect_same_bits([&] { return div(a, b + 1000); });
}

}  // namespace
}  // namespace tessera
