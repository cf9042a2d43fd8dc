// The special functions: values, promotion, derivatives.
#include <cmath>
#include <limits>
#include <numbers>
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

TEST(Special, BesselFunctions) {
  expect_values(special_bessel_j0(doubles({0, 1, -20, kNan})), {1, 0.7651976865579666, 0.16702466434058316, kNan});
  expect_values(special_bessel_y1(doubles({0, 1, 30, -1})), {-kInf, -0.7812128213002887, 0.0844255706617472, kNan});
  expect_values(special_modified_bessel_k0(doubles({0, 1, 5})), {kInf, 0.42102443824070834, 0.0036910983340425943});
  expect_values(special_airy_ai(doubles({0, 1, -5, -20})),
                {0.3550280538878172, 0.13529241631288147, 0.35076100902411431, -0.17640612707798469});
  expect_values(special_i1e(doubles({0, -1, 100})), {0, -0.20791041534970845, 0.039744153025130254});
}

// float32 has ways of its own, by pieces up to 11.25 and a series beyond: against float64, a number in any lane.
TEST(Special, BesselFunctionsOfFloat32) {
  std::vector<double> numbers = {0, 1e-30, 0.125, 11.249999046325684, 11.25, 1e6, 3e37};
  for (int i = 0; i < 40000; ++i) numbers.push_back(static_cast<float>(i * 15 / 40000.0 - 2));
  for (int i = 0; i < 1000; ++i) numbers.push_back(static_cast<float>(80 - i * 0.16));
  const Tensor x = doubles(numbers), brief = x.to(DType::kFloat32);
  const auto check = [&](Tensor (*f)(const Tensor&)) {
    const Tensor got = f(brief), exact = f(x);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double y = exact.data<double>()[i];
      if (!(std::fabs(y) < 3.4e38)) continue;
      EXPECT_NEAR(got.data<float>()[i], y, 0.6 * std::ldexp(1.0, std::max(std::ilogb(y), -126) - 23)) << numbers[i];
    }
    const Tensor later = f(brief.narrow(0, 5, 1021));
    for (int i = 0; i < 1021; ++i) ASSERT_EQ(later.data<float>()[i], got.data<float>()[i + 5]) << i;
  };
  check(special_i0e);
  check(special_i1e);
  check(i0);
  check([](const Tensor& t) { return special_modified_bessel_i1(t); });
  const Tensor edges = doubles({kInf, -kInf, kNan, -0.0}).to(DType::kFloat32);
  expect_values(special_i1e(edges).to(DType::kFloat64), {0, 0, kNan, 0});
  EXPECT_TRUE(std::signbit(special_i1e(edges).data<float>()[3]));
}

TEST(Special, NormalDistribution) {
  expect_values(special_erfcx(doubles({-30, 0, 1})), {kInf, 1, 0.42758357615580700});
  expect_values(special_ndtri(doubles({0, 0.5, 0.975, 1, 2})), {-kInf, 0, 1.9599639845400542, kInf, kNan});
  expect_values(special_log_ndtr(doubles({-40, 0})), {-804.60844201375279, -std::log(2.0)});
}

TEST(Special, GammaFamily) {
  expect_values(special_zeta(doubles({2, 4, 1}), Scalar(1)), {1.6449340668482264, 1.0823232337111382, kInf});
  expect_values(igamma(doubles({4, 100, 0}), doubles({3, 100, 1})), {0.35276811121776874, 0.51329879827914866, 1});
  expect_values(mvlgamma(doubles({3.5}), 2), {std::log(std::numbers::pi) / 2 + std::lgamma(3.5) + std::lgamma(3.0)});
}

TEST(Special, FunctionsOfTheNamespace) {
  expect_values(special::erfcx(doubles({0, 1})), {1, 0.42758357615580700});
  expect_values(special::zeta(doubles({2}), Scalar(1)), {1.6449340668482264});
  Tensor out = zeros({1}, DType::kFloat64);
  special::ndtri_out(out, doubles({0.5}));
  expect_values(out, {0});
}

TEST(Special, PolynomialsOfVectorsOfOrders) {
  const Tensor n = doubles({-1, 0, 1, 2.9, 5});
  const Tensor x = doubles({0.5, 0.5, 0.5, 0.5, 0.5});
  expect_values(special_chebyshev_polynomial_t(x, n), {0, 1, 0.5, -0.5, 0.5});
  expect_values(special_hermite_polynomial_h(x, n), {0, 1, 1, -1, 41});
  expect_values(special_laguerre_polynomial_l(x, n), {0, 1, 0.5, 0.125, -0.44557291666666665});
  expect_values(special_legendre_polynomial_p(x, Scalar(2)), std::vector<double>(5, -0.125));
}

}  // namespace
}  // namespace tessera
