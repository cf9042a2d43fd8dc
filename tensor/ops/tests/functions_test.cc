// Elementary functions: values at points with closed forms, integers as inputs, in-place and out= forms, errors.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2, kE = std::numbers::e;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = 4e-15;

void expect_doubles(const Tensor& t, std::initializer_list<double> wanted) {
  expect<double>(t, wanted, {static_cast<int64_t>(wanted.size())}, kEps);
}

TEST(Functions, Exponentials) {
  expect_doubles(exp(of<double>({0, 1, -kInf, 1000, kNan})), {1, kE, 0, kInf, kNan});
  expect_doubles(exp2(of<double>({-1, 10})), {0.5, 1024});
  expect_doubles(expm1(of<double>({0, kLn2, 1e-20})), {0, 1, 1e-20});
  expect_doubles(log(of<double>({1, kE, 0, -1})), {0, 1, -kInf, kNan});
  expect_doubles(log1p(of<double>({0, 1, -1})), {0, kLn2, -kInf});
  expect_doubles(log2(of<double>({8, 0.25})), {3, -2});
  expect_doubles(log10(of<double>({1000, 0.1})), {3, -1});
  EXPECT_EQ(expm1(of<double>({1e-20})).item<double>(), 1e-20);  // no cancellation
}

TEST(Functions, Angles) {
  const double half = std::sqrt(0.5);
  expect_doubles(sin(of<double>({0, kPi / 6, kPi / 4})), {0, 0.5, half});
  expect_doubles(cos(of<double>({0, kPi / 3, kPi})), {1, 0.5, -1});
  expect_doubles(tan(of<double>({0, kPi / 4})), {0, 1});
  expect_doubles(asin(of<double>({1, 0.5, 2})), {kPi / 2, kPi / 6, kNan});
  expect_doubles(acos(of<double>({1, 0.5, -1})), {0, kPi / 3, kPi});
  expect_doubles(atan(of<double>({1, kInf})), {kPi / 4, kPi / 2});
  expect_doubles(atan2(of<double>({1, 1, -1, 0}), of<double>({1, -1, -1, -1})),
                 {kPi / 4, 3 * kPi / 4, -3 * kPi / 4, kPi});
  expect_doubles(hypot(of<double>({3, 5}), of<double>({4, 12})), {5, 13});
  expect_doubles(deg2rad(of<double>({180, 45})), {kPi, kPi / 4});
  expect_doubles(rad2deg(of<double>({kPi})), {180});
}

TEST(Functions, Hyperbolic) {
  expect_doubles(sinh(of<double>({0, kLn2})), {0, 0.75});
  expect_doubles(cosh(of<double>({0, kLn2})), {1, 1.25});
  expect_doubles(tanh(of<double>({0, kLn2, kInf})), {0, 0.6, 1});
  expect_doubles(asinh(of<double>({0.75})), {kLn2});
  expect_doubles(acosh(of<double>({1.25, 1, 0})), {kLn2, 0, kNan});
  expect_doubles(atanh(of<double>({0.6, 1})), {kLn2, kInf});
  expect_doubles(sigmoid(of<double>({0, std::log(3.0), -kInf})), {0.5, 0.75, 0});
  expect_doubles(logit(of<double>({0.5, 0.75, 1})), {0, std::log(3.0), kInf});
  expect_doubles(logit(of<double>({0, 1}), 0.25), {-std::log(3.0), std::log(3.0)});
}

TEST(Functions, Special) {
  expect_doubles(erf(of<double>({0, kInf, -kInf})), {0, 1, -1});
  expect_doubles(erfc(of<double>({0, kInf, -kInf})), {1, 0, 2});
  expect_doubles(erfinv(of<double>({0, 1, -1, 2})), {0, kInf, -kInf, kNan});
  expect_doubles(lgamma(of<double>({1, 2, 5, 0.5})), {0, 0, std::log(24.0), 0.5 * std::log(kPi)});
  expect_doubles(digamma(of<double>({1, 2})), {-std::numbers::egamma, 1 - std::numbers::egamma});
  expect_doubles(polygamma(1, of<double>({1, 2})), {kPi * kPi / 6, kPi * kPi / 6 - 1});
  expect_doubles(sinc(of<double>({0, 0.5, 1})), {1, 2 / kPi, 0});
  expect_doubles(i0(of<double>({0})), {1});
  expect_doubles(xlogy(of<double>({0, 2}), of<double>({0, kE})), {0, 2});
  expect_doubles(logaddexp(of<double>({0, -kInf}), of<double>({0, -kInf})), {kLn2, -kInf});
  expect_doubles(logaddexp2(of<double>({3}), of<double>({3})), {4});
  expect_error<Error>([] { polygamma(-1, of<double>({1})); }, "polygamma(n, x) does not support negative n, got -1");
}

TEST(Functions, Rounding) {
  const Tensor a = of<float>({-1.5f, -0.5f, 0.5f, 1.5f, 2.5f});
  expect<float>(round(a), {-2, 0, 0, 2, 2});  // halves to the even number
  expect<float>(floor(a), {-2, -1, 0, 1, 2});
  expect<float>(ceil(a), {-1, 0, 1, 2, 3});
  expect<float>(trunc(a), {-1, 0, 0, 1, 2});
  expect<float>(frac(a), {-0.5f, -0.5f, 0.5f, 0.5f, 0.5f});
  expect<double>(round(of<double>({1.26, -12.34}), 1), {1.3, -12.3});
  expect<double>(round(of<double>({1250, 1350}), -2), {1200, 1400});
  expect<int32_t>(floor(of<int32_t>({-3, 3})), {-3, 3});  // integers are whole
}

TEST(Functions, Signs) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  expect<float>(sign(of<float>({-3, 0, 5})), {-1, 0, 1});
  expect<bool>(signbit(of<float>({-0.0f, 0, -inf})), {true, false, true});
  expect<float>(copysign(of<float>({1, -2}), of<float>({-0.0f, 3})), {-1, 2});
  expect<float>(nan_to_num(of<float>({nan, inf, -inf, 1}), 5, std::nullopt, -7),
                {5, std::numeric_limits<float>::max(), -7, 1});
  expect<float>(heaviside(of<float>({-1, 0, 2}), of<float>({9, 0.5f, 9})), {0, 0.5f, 1});
  expect<float>(nextafter(of<float>({1}), of<float>({2})), {1 + std::numeric_limits<float>::epsilon()});
  expect_error<Error>([] { heaviside(of<float>({1}), of<double>({1})); },
                      "heaviside is not yet implemented for tensors with different dtypes");
}

TEST(Functions, Integers) {
  expect<int32_t>(gcd(of<int32_t>({12, -18, 0, 7}), of<int32_t>({18, 12, 5, 0})), {6, 6, 5, 7});
  expect<int64_t>(lcm(of<int64_t>({4, 0, -3}), of<int64_t>({6, 5, 2})), {12, 0, 6});
  EXPECT_EQ(exp(of<int64_t>({0})).dtype(), DType::kFloat32);  // integers in the default dtype
  EXPECT_EQ(sin(of<bool>({true})).dtype(), DType::kFloat32);
  EXPECT_EQ(exp(to(of<float>({0}), DType::kFloat16)).dtype(), DType::kFloat16);
  EXPECT_EQ(atan2(of<int32_t>({1}), of<double>({1})).dtype(), DType::kFloat64);
}

TEST(Functions, InPlaceAndOut) {
  const Tensor a = of<double>({0, kLn2}), m = of<double>({1, 2, 4, 8}, {2, 2}), out = zeros({3}, DType::kFloat64);
  EXPECT_TRUE(exp_(a).is_same(a));
  expect_doubles(a, {1, 2});
  log2_(select(m, 1, 1));  // every second element
  expect<double>(m, {1, 1, 4, 3}, {2, 2}, kEps);
  Warnings warnings;
  log2_out(out, a);
  expect_doubles(out, {0, 1});
  EXPECT_TRUE(warnings.has(kResized));
  expect_error<Error>([] { exp_(of<int32_t>({1})); }, "can't be cast to the desired output type");
  expect_error<Error>([&] { exp_out(zeros({2}, DType::kInt64), a); }, "can't be cast to the desired output type");
  expect_error<Error>([&] { exp_(expand(zeros({1}), {2})); }, kSelfOverlap);
  const Tensor line = of<double>({1, 2, 3});
  expect_error<Error>([&] { exp_out(slice(line, 0, 1, 3), slice(line, 0, 0, 2)); }, kOneMemory);
}

TEST(Functions, LayoutsAndMeta) {
  const Tensor m = of<double>({0, 1, 2, 3, 4, 5}, {2, 3}), e = exp2(transpose(m, 0, 1));
  expect<double>(e, {1, 8, 2, 16, 4, 32}, {3, 2});
  EXPECT_EQ(strides(e), (IntVector{1, 3}));
  expect<float>(exp(zeros({0, 2})), {}, {0, 2});
  const Tensor r = sqrt(meta({2, 3}, DType::kInt32));
  EXPECT_TRUE(r.is_meta());
  EXPECT_EQ(r.dtype(), DType::kFloat32);
  EXPECT_EQ(shape(r), (IntVector{2, 3}));
}

TEST(Functions, ManyElementsSameBits) {
  const Tensor a = rough({300001});
  expect_same_bits([&] { return exp(a); });
  expect_same_bits([&] { return lgamma(a); });
}

}  // namespace
}  // namespace tessera
