// Windows and short-time transforms as C++ programs write them.
#include "signal/signal.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

void expect_values(const Tensor& t, const std::vector<double>& wanted) {
  ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted.size()));
  ASSERT_EQ(t.dtype(), DType::kFloat64);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(t.data<double>()[i], wanted[i], 1e-15) << i;
}

TEST(Windows, FunctionsOfTheNamespace) {
  const auto t = DType::kFloat64;
  expect_values(signal::windows::hann(5, true, t), {0, 0.5, 1, 0.5, 0});
  expect_values(signal::windows::hann(4, false, t), {0, 0.5, 1, 0.5});
  expect_values(signal::windows::bartlett(3, true, t), {0, 1, 0});
  expect_values(signal::windows::blackman(1, true, t), {1});
  expect_values(hann_window(4, true, t), {0, 0.5, 1, 0.5});
}

// More terms than one sequence has.
TEST(Windows, SumsOfManyCosines) {
  const std::vector<double> a{0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.005, 0.004};
  std::vector<double> wanted;
  for (int i = 0; i < 7; ++i) {
    double sum = 0;
    for (size_t j = 0; j < a.size(); ++j)
      sum += (j % 2 ? -a[j] : a[j]) * std::cos(2 * std::numbers::pi * static_cast<double>(j) * i / 6);
    wanted.push_back(sum);
  }
  expect_values(signal::windows::general_cosine(7, a, true, DType::kFloat64), wanted);
  EXPECT_THROW(signal::windows::general_cosine(7, {}), ValueError);
  EXPECT_THROW(signal::windows::general_cosine(-1, a), ValueError);
}

}  // namespace
}  // namespace tessera
