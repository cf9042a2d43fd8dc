// Exponentials against a series in long double, at each norm where another polynomial begins.
#include "linalg/cpu/matrix_exp.h"

#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

using Wide = std::complex<long double>;
using WideMatrix = std::vector<Wide>;

template <class T>
struct Kind;
template <>
struct Kind<float> {
  static constexpr DType dtype = DType::kFloat32;
  using Real = float;
};
template <>
struct Kind<double> {
  static constexpr DType dtype = DType::kFloat64;
  using Real = double;
};
template <>
struct Kind<std::complex<float>> {
  static constexpr DType dtype = DType::kComplex64;
  using Real = float;
};
template <>
struct Kind<std::complex<double>> {
  static constexpr DType dtype = DType::kComplex128;
  using Real = double;
};

template <class T>
T random_number(std::mt19937& random) {
  std::normal_distribution<typename Kind<T>::Real> normal;
  if constexpr (std::is_floating_point_v<T>)
    return normal(random);
  else
    return {normal(random), normal(random)};
}

WideMatrix product(const WideMatrix& a, const WideMatrix& b, int64_t n) {
  WideMatrix c(n * n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

long double norm_of(const WideMatrix& a, int64_t n) {
  long double norm = 0;
  for (int64_t j = 0; j < n; ++j) {
    long double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::abs(a[i * n + j]);
    norm = std::max(norm, sum);
  }
  return norm;
}

// 40 terms of the series at a norm below 1/2, squared.
WideMatrix by_definition(WideMatrix a, int64_t n) {
  int squarings = 0;
  while (norm_of(a, n) > 0.5L) {
    for (Wide& x : a) x /= 2;
    ++squarings;
  }
  WideMatrix sum(n * n), term(n * n);
  for (int64_t i = 0; i < n; ++i) term[i * (n + 1)] = 1;
  for (int k = 1; k <= 40; ++k) {
    for (int64_t i = 0; i < n * n; ++i) sum[i] += term[i];
    term = product(term, a, n);
    for (Wide& x : term) x /= static_cast<long double>(k);
  }
  for (int i = 0; i < squarings; ++i) sum = product(sum, sum, n);
  return sum;
}

template <class T>
class MatrixExpTest : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(MatrixExpTest, Types);

TYPED_TEST(MatrixExpTest, IsTheSeries) {
  using T = TypeParam;
  using R = typename Kind<T>::Real;
  std::mt19937 random(1);
  for (int64_t n : {2, 3, 8, 17, 33}) {
    for (double norm : {1e-17, 1e-9, 1e-8, 3e-4, 1e-3, 0.03, 0.2, 0.5, 1.0, 1.3, 2.5, 4.0, 9.0, 30.0}) {
      WideMatrix wide(n * n);
      std::vector<T> a(n * n);
      for (T& x : a) x = random_number<T>(random);
      for (int64_t i = 0; i < n * n; ++i) wide[i] = Wide(a[i]);
      const R factor = static_cast<R>(norm / norm_of(wide, n));
      for (int64_t i = 0; i < n * n; ++i) wide[i] = Wide(a[i] *= factor);
      const WideMatrix wanted = by_definition(wide, n);
      run_matrix_exp(Kind<T>::dtype, {a.data(), 1, n, n, n, 1, 0});
      WideMatrix error(n * n);
      for (int64_t i = 0; i < n * n; ++i) error[i] = Wide(a[i]) - wanted[i];
      // The condition of exp is about the norm.
      const long double allowed = (4 + 4 * norm) * std::sqrt(n) * std::numeric_limits<R>::epsilon();
      EXPECT_LE(norm_of(error, n), allowed * norm_of(wanted, n)) << n << " " << norm;
    }
  }
}

TYPED_TEST(MatrixExpTest, BatchesStridesAndThreads) {
  using T = TypeParam;
  std::mt19937 random(2);
  const int threads = num_threads();
  for (auto [count, n] : {std::pair<int64_t, int64_t>{50, 5}, {3, 100}}) {
    const int64_t stride = n + 3, step = n * stride + 2;
    std::vector<T> a(count * step);
    for (T& x : a) x = random_number<T>(random);
    std::vector<T> transposed = a, alone(n * n);
    const std::vector<T> before = a;
    set_num_threads(1);
    run_matrix_exp(Kind<T>::dtype, {a.data(), count, n, n, stride, 1, step});
    set_num_threads(2);
    run_matrix_exp(Kind<T>::dtype, {transposed.data(), count, n, n, 1, stride, step});
    EXPECT_EQ(a, transposed);
    for (int64_t b = 0; b < count; ++b) {
      for (int64_t i = 0; i < n; ++i) std::copy_n(&before[b * step + i * stride], n, &alone[i * n]);
      run_matrix_exp(Kind<T>::dtype, {alone.data(), 1, n, n, n, 1, 0});
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) EXPECT_EQ(alone[i * n + j], a[b * step + i * stride + j]);
        for (int64_t j = n; j < stride && i + 1 < n; ++j)
          EXPECT_EQ(before[b * step + i * stride + j], a[b * step + i * stride + j]);
      }
    }
  }
  set_num_threads(threads);
}

TYPED_TEST(MatrixExpTest, NumbersAndWhatIsNotFinite) {
  using T = TypeParam;
  using R = typename Kind<T>::Real;
  const R inf = std::numeric_limits<R>::infinity();
  std::vector<T> a{T(R(2)), T(-inf)};
  run_matrix_exp(Kind<T>::dtype, {a.data(), 2, 1, 1, 1, 1, 1});
  EXPECT_EQ(a[0], std::exp(T(R(2))));
  EXPECT_EQ(a[1], T(R(0)));
  for (R bad : {inf, -inf, std::numeric_limits<R>::quiet_NaN()}) {
    std::vector<T> b{T(R(1)), T(bad), T(R(0)), T(R(1)), T(R(0)), T(R(0)), T(R(0)), T(R(0))};
    run_matrix_exp(Kind<T>::dtype, {b.data(), 2, 2, 2, 2, 1, 4});
    for (int i = 0; i < 4; ++i) EXPECT_NE(b[i], b[i]);
    EXPECT_EQ((std::vector<T>(b.begin() + 4, b.end())), (std::vector<T>{R(1), R(0), R(0), R(1)}));
  }
  std::vector<T> huge{T(-std::numeric_limits<R>::max()), T(R(0)), T(R(0)), T(-std::numeric_limits<R>::max())};
  run_matrix_exp(Kind<T>::dtype, {huge.data(), 1, 2, 2, 2, 1, 0});
  EXPECT_EQ(huge, (std::vector<T>{R(0), R(0), R(0), R(0)}));
}

}  // namespace
}  // namespace tessera::cpu
