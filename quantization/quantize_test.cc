#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "quantization/quantization_ops.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

Tensor floats(const std::vector<float>& values) {
  Tensor t = zeros(IntVector{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

TEST(Quantize, RoundsHalfToEvenAndSaturates) {
  // More elements than any vector has lanes, so that whole vectors and the rest are both there.
  std::vector<float> numbers;
  for (int i = 0; i < 35; ++i) numbers.push_back(static_cast<float>(i) - 17.5f);
  const Tensor x = floats(numbers);
  const double scale[1] = {1.0};
  const int64_t zero[1] = {3};
  const Tensor q = _quantize_affine(x, scale, IntList(zero), -1, 0, 10, DType::kUInt8);
  for (int i = 0; i < 35; ++i) {
    const int level = static_cast<int>(std::nearbyint(numbers[static_cast<size_t>(i)])) + 3;
    EXPECT_EQ(q.data<uint8_t>()[i], std::clamp(level, 0, 10)) << i;
  }
}

TEST(Quantize, EachChannelHasItsScale) {
  const Tensor x = reshape(floats(std::vector<float>{1, 2, 3, 4}), IntVector{2, 2});
  const double scale[2] = {1.0, 0.5};
  const int64_t zero[2] = {0, 1};
  const Tensor q = _quantize_affine(x, scale, IntList(zero), 1, -128, 127, DType::kInt8);
  EXPECT_EQ(q.data<int8_t>()[0], 1);
  EXPECT_EQ(q.data<int8_t>()[1], 5);
  EXPECT_EQ(q.data<int8_t>()[3], 9);
  const Tensor back = _dequantize_affine(q, scale, IntList(zero), 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(back.data<float>()[i], x.data<float>()[i]);
}

TEST(Quantize, SumsAreScaledOnce) {
  const Tensor sums = to(reshape(floats(std::vector<float>{10, 20, 30, -400}), IntVector{2, 2}), DType::kInt32);
  const Tensor factor = floats(std::vector<float>{0.5f, 2.0f}), bias = floats(std::vector<float>{1, 0});
  const Tensor q = _requantize_sums(sums, Tensor(), factor, bias, 4, 0, 255, DType::kUInt8);
  EXPECT_EQ(q.data<uint8_t>()[0], 10);  // (10 + 1) / 2 = 5.5 goes to 6
  EXPECT_EQ(q.data<uint8_t>()[1], 44);
  EXPECT_EQ(q.data<uint8_t>()[3], 0);
  const Tensor f = _requantize_sums(sums, Tensor(), factor, bias, 0, 0, 0, DType::kFloat32);
  EXPECT_EQ(f.data<float>()[2], 16.0f);
}

}  // namespace
}  // namespace tessera
