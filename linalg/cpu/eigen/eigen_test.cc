#include <gtest/gtest.h>

#include <cstring>

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
void check_pairs(const Dense<T>& a, const Pairs<T>& p, const std::string& what) {
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
}
template <class T>
void check(const Dense<T>& a, const std::string& what) {
  const Pairs<T> p = eig(a);
  check_pairs(a, p, what);
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

// Matrices that break naive code, by name.
template <class T>
std::vector<std::pair<std::string, Dense<T>>> hard_matrices(int64_t n) {
  using R = Real<T>;
  std::vector<std::pair<std::string, Dense<T>>> all;
  Dense<T> a(n, n);
  all.emplace_back("zero", a);
  for (int64_t i = 0; i < n; ++i) a(i, i) = T(3);
  all.emplace_back("identity", a);
  for (int64_t i = 0; i + 1 < n; ++i) a(i, i + 1) = T(1);
  all.emplace_back("Jordan", a);
  all.emplace_back("Jordan, lower", adjoint(a));
  Dense<T> cycle(n, n);
  for (int64_t i = 0; i < n; ++i) cycle(i, (i + 1) % n) = T(1);
  all.emplace_back("cycle", cycle);
  Dense<T> frank(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = std::max<int64_t>(0, i - 1); j < n; ++j) frank(i, j) = T(static_cast<R>(n - std::max(i, j)));
  all.emplace_back("Frank", frank);
  Dense<T> grcar(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = std::max<int64_t>(0, i - 1); j < std::min(n, i + 4); ++j) grcar(i, j) = T(R(j < i ? -1 : 1));
  all.emplace_back("Grcar", grcar);
  Dense<T> graded = random_matrix<T>(n, n, 3);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) graded(i, j) *= std::pow(R(10), R(-6) * (i + j) / (2 * n));
  all.emplace_back("graded", graded);
  Dense<T> block = random_matrix<T>(n, n, 5);
  for (int64_t i = n / 2; i < n; ++i)
    for (int64_t j = 0; j < n / 2; ++j) block(i, j) = T(0);
  all.emplace_back("falls apart", block);
  Dense<T> unlike = random_matrix<T>(n, n, 6);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) unlike(i, j) *= std::pow(R(2), R((i * 7 % 5) - (j * 7 % 5)) * 3);
  all.emplace_back("rows of unlike size", unlike);
  Dense<T> skew = random_matrix<T>(n, n, 8);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) skew(i, j) = i == j ? T(0) : -skew(j, i);
  all.emplace_back("skew", skew);
  Dense<T> symmetric = random_matrix<T>(n, n, 9);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j)
      symmetric(i, j) = i == j ? T(real_part(symmetric(i, i))) : conjugate(symmetric(j, i));
  all.emplace_back("symmetric", symmetric);
  for (R scale : {std::numeric_limits<R>::min() * 1024, std::numeric_limits<R>::max() / 1048576}) {
    Dense<T> far = random_matrix<T>(n, n, 4);
    for (T& x : far.data) x *= scale;
    all.emplace_back("scaled", far);
  }
  return all;
}

TYPED_TEST(Eigen, MatricesThatAreHard) {
  for (int64_t n : {6, 30, 90, 160, 230})  // from 200 on with early deflation
    for (const auto& [what, a] : hard_matrices<TypeParam>(n))
      if (n < 200 || what != "Frank") check(a, what);  // of which balancing costs digits, LAPACK's too
}

// Many of a size at once, of one kind and of all together.
TYPED_TEST(Eigen, Batches) {
  using T = TypeParam;
  using C = std::complex<Real<T>>;
  for (int64_t n : {1, 2, 3, 5, 8, 16, 31, 32}) {
    std::vector<std::pair<std::string, Dense<T>>> all;
    if (n > 3) all = hard_matrices<T>(n);
    for (int i = 0; i < 40; ++i) all.emplace_back("random " + std::to_string(i), random_matrix<T>(n, n, 100 + i));
    const auto count = static_cast<int64_t>(all.size());
    std::vector<T> a;
    for (const auto& one : all) a.insert(a.end(), one.second.data.begin(), one.second.data.end());
    std::vector<C> w(static_cast<size_t>(count * n)), alone(w.size()), v(a.size());
    std::vector<int32_t> info(static_cast<size_t>(count), -2);
    const MatrixBatch from{a.data(), count, n, n, n, 1, n * n}, vectors{v.data(), count, n, n, n, 1, n * n};
    run_eig(kDType<T>, from, w.data(), &vectors, info.data());
    std::vector<int32_t> other(info.size(), -2);
    run_eig(kDType<T>, from, alone.data(), nullptr, other.data());
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto& [what, matrix] = all[at];
      Pairs<T> p{{w.begin() + i * n, w.begin() + (i + 1) * n}, Dense<C>(n, n), info[at]};
      p.v.data.assign(v.begin() + i * n * n, v.begin() + (i + 1) * n * n);
      check_pairs(matrix, p, what + ", n = " + std::to_string(n));
      EXPECT_EQ(other[at], 0);
      std::complex<double> difference;
      for (int64_t j = 0; j < n; ++j) {
        difference += std::complex<double>(alone[static_cast<size_t>(i * n + j)]) -
                      std::complex<double>(p.w[static_cast<size_t>(j)]);
        if (!kIsComplex<T> && p.w[static_cast<size_t>(j)].imag() > 0) {
          ASSERT_LT(j + 1, n);
          EXPECT_EQ(p.w[static_cast<size_t>(j)], std::conj(p.w[static_cast<size_t>(j + 1)]));
          for (int64_t k = 0; k < n; ++k) EXPECT_EQ(p.v(k, j), std::conj(p.v(k, j + 1)));
        }
      }
      EXPECT_LT(std::abs(difference), 10 * units(matrix) + 1e-300) << what;
    }
  }
}

// Small matrices have the same bits alone and among any others.
TYPED_TEST(Eigen, BatchesAreTheirMatrices) {
  using T = TypeParam;
  using C = std::complex<Real<T>>;
  for (int64_t n : {1, 2, 4, 5, 8, 13, 32}) {
    std::vector<Dense<T>> all;
    for (int i = 0; i < 9; ++i) all.push_back(random_matrix<T>(n, n, 200 + i));
    if (n > 3)
      for (const auto& [what, a] : hard_matrices<T>(n)) all.push_back(a);
    const auto count = static_cast<int64_t>(all.size());
    std::vector<T> a;
    for (const auto& one : all) a.insert(a.end(), one.data.begin(), one.data.end());
    std::vector<C> w(static_cast<size_t>(count * n)), v(a.size());
    std::vector<int32_t> info(all.size(), -2);
    const MatrixBatch vectors{v.data(), count, n, n, n, 1, n * n};
    run_eig(kDType<T>, {a.data(), count, n, n, n, 1, n * n}, w.data(), &vectors, info.data());
    for (int64_t i = 0; i < count; ++i) {
      const Pairs<T> p = eig(all[static_cast<size_t>(i)]);
      EXPECT_EQ(std::memcmp(p.w.data(), w.data() + i * n, p.w.size() * sizeof(C)), 0) << n << " " << i;
      EXPECT_EQ(std::memcmp(p.v.data.data(), v.data() + i * n * n, p.v.data.size() * sizeof(C)), 0) << n << " " << i;
    }
  }
}

TYPED_TEST(Eigen, BatchesWithNan) {
  using T = TypeParam;
  using C = std::complex<Real<T>>;
  const int64_t n = 6, count = 20;
  std::vector<T> a;
  for (int64_t i = 0; i < count; ++i) {
    const Dense<T> one = random_matrix<T>(n, n, i);
    a.insert(a.end(), one.data.begin(), one.data.end());
  }
  a[3 * n * n + 7] = T(std::numeric_limits<Real<T>>::quiet_NaN());
  a[11 * n * n] = T(std::numeric_limits<Real<T>>::infinity());
  std::vector<C> w(count * n), v(a.size());
  std::vector<int32_t> info(count, -2);
  const MatrixBatch vectors{v.data(), count, n, n, n, 1, n * n};
  run_eig(kDType<T>, {a.data(), count, n, n, n, 1, n * n}, w.data(), &vectors, info.data());
  for (int64_t i = 0; i < count; ++i) {
    const bool bad = i == 3 || i == 11;
    EXPECT_EQ(info[static_cast<size_t>(i)], bad ? -1 : 0);
    EXPECT_EQ(std::isnan(w[static_cast<size_t>(i * n)].real()), bad);
    EXPECT_EQ(std::isnan(v[static_cast<size_t>(i * n * n)].real()), bad);
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
