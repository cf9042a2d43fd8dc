#include <gtest/gtest.h>

#include "linalg/cpu/eigen/eig.h"
#include "linalg/cpu/testing.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu::testing {
namespace {

template <class T>
class Eigen : public ::testing::Test {};
using Numbers = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Eigen, Numbers);

template <class T>
struct Pairs {
  std::vector<std::complex<Real<T>>> w;
  Dense<std::complex<Real<T>>> v;
  int32_t info = 0;
};
template <class T>
Pairs<T> eig(Dense<T> a) {
  Pairs<T> r{std::vector<std::complex<Real<T>>>(static_cast<size_t>(a.rows)),
             Dense<std::complex<Real<T>>>(a.rows, a.rows)};
  const MatrixBatch v = r.v.batch();
  run_eig(kDType<T>, a.batch(), r.w.data(), &v, &r.info);
  return r;
}

// |A V - V W| / (n |A| eps), and vectors of norm 1.
template <class T>
void check(const Dense<T>& a, const std::string& what) {
  const Pairs<T> p = eig(a);
  ASSERT_EQ(p.info, 0) << what;
  const int64_t n = a.rows;
  auto left = product(a, p.v);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      left(i, j) -= std::complex<double>(p.v(i, j)) * std::complex<double>(p.w[static_cast<size_t>(j)]);
  EXPECT_LT(size(left) / units(a), 10) << what;
  for (int64_t j = 0; j < n; ++j) {
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) norm += std::norm(std::complex<double>(p.v(i, j)));
    EXPECT_NEAR(norm, 1, 100 * static_cast<double>(kEps<T>)) << what << " " << j;
  }
  // The values alone are the same.
  std::vector<std::complex<Real<T>>> w(p.w.size());
  int32_t info = -2;
  Dense<T> copy = a;
  run_eig(kDType<T>, copy.batch(), w.data(), nullptr, &info);
  EXPECT_EQ(info, 0);
  std::complex<double> sum, other;
  for (size_t i = 0; i < w.size(); ++i) {
    sum += std::complex<double>(w[i]);
    other += std::complex<double>(p.w[i]);
  }
  EXPECT_LT(std::abs(sum - other), 10 * units(a) + 1e-300) << what;
}

TYPED_TEST(Eigen, RandomMatrices) {
  for (int64_t n : {1, 2, 3, 4, 5, 8, 17, 33, 64, 100, 150, 260})
    check(random_matrix<TypeParam>(n, n, 7), "n = " + std::to_string(n));
}

TYPED_TEST(Eigen, MatricesThatAreHard) {
  using T = TypeParam;
  using R = Real<T>;
  for (int64_t n : {6, 30, 90, 160}) {
    Dense<T> a(n, n);
    check(a, "zero");
    for (int64_t i = 0; i < n; ++i) a(i, i) = T(3);
    check(a, "identity");
    for (int64_t i = 0; i + 1 < n; ++i) a(i, i + 1) = T(1);
    check(a, "Jordan");
    check(adjoint(a), "Jordan, lower");
    Dense<T> cycle(n, n);
    for (int64_t i = 0; i < n; ++i) cycle(i, (i + 1) % n) = T(1);
    check(cycle, "cycle");
    Dense<T> frank(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = std::max<int64_t>(0, i - 1); j < n; ++j) frank(i, j) = T(static_cast<R>(n - std::max(i, j)));
    check(frank, "Frank");
    Dense<T> grcar(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = std::max<int64_t>(0, i - 1); j < std::min(n, i + 4); ++j) grcar(i, j) = T(R(j < i ? -1 : 1));
    check(grcar, "Grcar");
    Dense<T> graded = random_matrix<T>(n, n, 3);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) graded(i, j) *= std::pow(R(10), R(-6) * (i + j) / (2 * n));
    check(graded, "graded");
    Dense<T> block = random_matrix<T>(n, n, 5);
    for (int64_t i = n / 2; i < n; ++i)
      for (int64_t j = 0; j < n / 2; ++j) block(i, j) = T(0);
    check(block, "falls apart");
    for (R scale : {std::numeric_limits<R>::min() * 1024, std::numeric_limits<R>::max() / 1048576}) {
      Dense<T> far = random_matrix<T>(n, n, 4);
      for (T& x : far.data) x *= scale;
      check(far, "scaled");
    }
  }
}

TYPED_TEST(Eigen, NanAndInfinity) {
  using T = TypeParam;
  for (Real<T> x : {std::numeric_limits<Real<T>>::infinity(), std::numeric_limits<Real<T>>::quiet_NaN()}) {
    Dense<T> a = random_matrix<T>(5, 5);
    a(3, 1) = T(x);
    EXPECT_EQ(eig(a).info, -1);
  }
}

TEST(EigenReal, PairsAreConjugates) {
  const Pairs<double> p = eig(random_matrix<double>(120, 120, 9));
  ASSERT_EQ(p.info, 0);
  int pairs = 0;
  for (size_t j = 0; j < p.w.size(); ++j) {
    if (p.w[j].imag() == 0) continue;
    ASSERT_LT(j + 1, p.w.size());
    EXPECT_GT(p.w[j].imag(), 0);
    EXPECT_EQ(p.w[j], std::conj(p.w[j + 1]));
    for (int64_t i = 0; i < 120; ++i)
      EXPECT_EQ(p.v(i, static_cast<int64_t>(j)), std::conj(p.v(i, static_cast<int64_t>(j) + 1)));
    ++pairs;
    ++j;
  }
  EXPECT_GT(pairs, 10);
}

TYPED_TEST(Eigen, TheSameBitsAtAnyNumberOfThreads) {
  const Dense<TypeParam> a = random_matrix<TypeParam>(200, 200);
  const int before = num_threads();
  set_num_threads(1);
  const Pairs<TypeParam> one = eig(a);
  set_num_threads(4);
  const Pairs<TypeParam> four = eig(a);
  set_num_threads(before);
  EXPECT_EQ(one.w, four.w);
  EXPECT_EQ(one.v.data, four.v.data);
}

}  // namespace
}  // namespace tessera::cpu::testing
