// The special functions: values, promotion, derivatives.
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/autograd.h"
#include "gtest/gtest.h"
#include "special/special.h"
#include "tensor/ops/api.h"

namespace tessera {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Tensor doubles(std::vector<double> v) {
  const int64_t size[] = {static_cast<int64_t>(v.size())};
  Tensor t = empty_kernel(size, DType::kFloat64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}

void expect_values(const Tensor& t, std::vector<double> wanted) {
  ASSERT_EQ(t.numel(), static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double got = t.data<double>()[i];
    if (std::isnan(wanted[i]))
      EXPECT_TRUE(std::isnan(got)) << i;
    else if (std::isinf(wanted[i]))
      EXPECT_EQ(got, wanted[i]) << i;
    else
      EXPECT_NEAR(got, wanted[i], 1e-14 * (1 + std::fabs(wanted[i]))) << i;
  }
}

TEST(Special, Entr) {
  expect_values(special_entr(doubles({0, 1, 0.5, 2, -1, kNan, kInf})),
                {0, 0, 0.5 * std::log(2.0), -2 * std::log(2.0), -kInf, kNan, -kInf});
  EXPECT_EQ(special_entr(zeros({1}, DType::kInt64)).dtype(), DType::kFloat32);
}

TEST(Special, EntrGradient) {
  Tensor x = doubles({1, 0.5}).requires_grad_();
  sum(special_entr(x)).backward();
  expect_values(x.grad(), {-1, std::log(2.0) - 1});
}

TEST(Special, Xlog1py) {
  expect_values(special_xlog1py(doubles({0, 2, 0, 1}), doubles({-1, 3, kNan, -1})),
                {0, 2 * std::log(4.0), kNan, -kInf});
  expect_values(special_xlog1py(Scalar(2), doubles({3})), {2 * std::log(4.0)});
  expect_values(special_xlog1py(doubles({2}), Scalar(3)), {2 * std::log(4.0)});
}

TEST(Special, Xlog1pyGradient) {
  Tensor x = doubles({0, 2}).requires_grad_(), y = doubles({-1, 3}).requires_grad_();
  sum(special_xlog1py(x, y)).backward();
  expect_values(x.grad(), {0, std::log(4.0)});
  EXPECT_DOUBLE_EQ(y.grad().data<double>()[1], 2.0 / 4.0);
}

}  // namespace
}  // namespace tessera
