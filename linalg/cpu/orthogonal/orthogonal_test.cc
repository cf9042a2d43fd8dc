#include <gtest/gtest.h>

#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cpu/orthogonal/least_squares.h"
#include "linalg/cpu/testing.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu::testing {
namespace {

template <class T>
class Orthogonal : public ::testing::Test {};
using Numbers = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Orthogonal, Numbers);

template <class T>
struct Factors {
  Dense<T> q, r;
};
// Of min(m, n) columns. By columns: the engine gets matrices in columns.
template <class T>
Factors<T> factor(const Dense<T>& a, bool by_columns) {
  const int64_t m = a.rows, n = a.cols, k = std::min(m, n);
  Dense<T> h(m, n), stored(n, m);
  std::vector<T> tau(static_cast<size_t>(k));
  if (by_columns) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) stored(j, i) = a(i, j);
    run_geqrf(kDType<T>, stored.flipped(), tau.data());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) h(i, j) = stored(j, i);
  } else {
    h = a;
    run_geqrf(kDType<T>, h.batch(), tau.data());
  }
  Factors<T> f{Dense<T>(m, k), Dense<T>(k, n)};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) f.q(i, j) = h(i, j);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i; j < n; ++j) f.r(i, j) = h(i, j);
  run_householder_product(kDType<T>, f.q.batch(), tau.data(), k, k);
  return f;
}

TYPED_TEST(Orthogonal, FactorsOfAllShapes) {
  using T = TypeParam;
  const int64_t shapes[][2] = {{1, 1},   {5, 3},   {3, 5},     {16, 16},   {17, 17},
                               {40, 33}, {65, 64}, {200, 130}, {130, 200}, {300, 7}};
  for (const auto& s : shapes) {
    for (bool by_columns : {false, true}) {
      const Dense<T> a = random_matrix<T>(s[0], s[1]);
      const Factors<T> f = factor(a, by_columns);
      EXPECT_LT(distance(product(f.q, f.r), a) / units(a), 10) << s[0] << " x " << s[1];
      EXPECT_LT(orthogonality(f.q), 10) << s[0] << " x " << s[1];
    }
  }
}

// Matrices that go by groups, of which each has another size of numbers, a column of zeros, or equal columns.
TYPED_TEST(Orthogonal, BatchesOfSmallMatrices) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t shapes[][2] = {{1, 1},   {2, 2},   {8, 8},   {5, 3},   {3, 5},
                               {17, 16}, {32, 32}, {20, 40}, {40, 20}, {64, 64}};
  for (const auto& s : shapes) {
    for (int64_t count : {3, 16, 21}) {
      const int64_t m = s[0], n = s[1], k = std::min(m, n);
      std::vector<Dense<T>> all;
      std::vector<T> data, tau(static_cast<size_t>(count * k));
      for (int64_t b = 0; b < count; ++b) {
        Dense<T> a = random_matrix<T>(m, n, static_cast<unsigned>(b + 1));
        const R scale = b % 5 == 1   ? std::numeric_limits<R>::min() * 64
                        : b % 5 == 2 ? std::numeric_limits<R>::max() / 8192
                                     : R(1);
        for (T& x : a.data) x *= scale;
        for (int64_t i = 0; i < m && b % 5 == 3; ++i) a(i, n / 2) = T(0);
        for (int64_t i = 0; i < m && b % 5 == 4; ++i) a(i, n - 1) = a(i, 0);
        data.insert(data.end(), a.data.begin(), a.data.end());
        all.push_back(std::move(a));
      }
      const MatrixBatch batch{data.data(), count, m, n, n, 1, m * n};
      run_geqrf(kDType<T>, batch, tau.data());
      std::vector<T> q(static_cast<size_t>(count * m * k));
      std::vector<T> whole(static_cast<size_t>(count * m * n)), r(static_cast<size_t>(count * k * n));
      for (int64_t b = 0; b < count; ++b)
        std::copy_n(all[static_cast<size_t>(b)].data.data(), m * n, whole.data() + b * m * n);
      if (m >= n) run_qr(kDType<T>, {whole.data(), count, m, n, n, 1, m * n}, {r.data(), count, n, n, n, 1, n * n});
      for (int64_t b = 0; b < count; ++b)
        for (int64_t i = 0; i < m; ++i) std::copy_n(data.data() + (b * m + i) * n, k, q.data() + (b * m + i) * k);
      run_householder_product(kDType<T>, {q.data(), count, m, k, k, 1, m * k}, tau.data(), k, k);
      for (int64_t b = 0; b < count; ++b) {
        Dense<T> left(m, k), right(k, n);
        std::copy_n(q.data() + b * m * k, m * k, left.data.data());
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = i; j < n; ++j) right(i, j) = data[static_cast<size_t>((b * m + i) * n + j)];
        for (int64_t i = 0; i < k; ++i) EXPECT_EQ(imag_part(right(i, i)), 0);
        // Both at once have the same bits.
        for (int64_t e = 0; m >= n && e < m * k; ++e)
          EXPECT_EQ(whole[static_cast<size_t>(b * m * k + e)], left.data[e]);
        for (int64_t e = 0; m >= n && e < k * n; ++e) EXPECT_EQ(r[static_cast<size_t>(b * k * n + e)], right.data[e]);
        EXPECT_LT(distance(product(left, right), all[static_cast<size_t>(b)]) / units(all[static_cast<size_t>(b)]), 10)
            << m << " x " << n << ", " << b << " of " << count;
        EXPECT_LT(orthogonality(left), 10) << m << " x " << n << ", " << b << " of " << count;
      }
    }
  }
}

// Each column of Q R is as near as its own size says, and a column that is done already is left as it was.
TYPED_TEST(Orthogonal, ColumnsOfAllSizesInOneMatrix) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t m = 50, n = 40;
  Dense<T> a = random_matrix<T>(m, n);
  const int most = std::numeric_limits<R>::max_exponent - 20;
  for (int64_t j = 0; j < n; ++j) {
    const R scale = std::ldexp(R(1), j % 3 == 0 ? 0 : static_cast<int>(j * (2 * most) / n) - most);
    for (int64_t i = 0; i < m; ++i) a(i, j) *= scale;
  }
  for (int64_t j : {0, 1, 2, 24})
    for (int64_t i = 1; i < m; ++i) a(i, j) = j == 2 && i < 3 ? a(i, j) : T(0);
  const Factors<T> f = factor(a, false);
  EXPECT_LT(orthogonality(f.q), 10);
  const auto back = product(f.q, f.r);
  for (int64_t j = 0; j < n; ++j) {
    double length = 0, off = 0;
    for (int64_t i = 0; i < m; ++i) {
      const std::complex<double> is(back(i, j)), wanted(a(i, j));
      length = std::max(length, std::abs(wanted));
      off = std::max(off, std::abs(is - wanted));
    }
    EXPECT_LE(off / length, 40 * kEps<T>) << "column " << j;
  }
  if (!kIsComplex<T>) { EXPECT_EQ(f.r(0, 0), a(0, 0)); }
}

TYPED_TEST(Orthogonal, HugeAndTinyNumbers) {
  using T = TypeParam;
  using R = Real<T>;
  for (R scale : {std::numeric_limits<R>::min() * 8, std::numeric_limits<R>::max() / 1024}) {
    Dense<T> a = random_matrix<T>(20, 12);
    for (T& x : a.data) x *= scale;
    const Factors<T> f = factor(a, false);
    EXPECT_LT(orthogonality(f.q), 10);
    EXPECT_LT(distance(product(f.q, f.r), a) / units(a), 10);
  }
}

TYPED_TEST(Orthogonal, AppliedFromBothSides) {
  using T = TypeParam;
  const int64_t m = 90, k = 70, n = 33;
  Dense<T> h = random_matrix<T>(m, k);
  std::vector<T> tau(static_cast<size_t>(k));
  run_geqrf(kDType<T>, h.batch(), tau.data());
  Dense<T> q(m, m);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) q(i, j) = h(i, j);
  run_householder_product(kDType<T>, q.batch(), tau.data(), k, k);
  EXPECT_LT(orthogonality(q), 10);
  for (bool left : {true, false}) {
    for (bool flip : {true, false}) {
      Dense<T> c = left ? random_matrix<T>(m, n, 2) : random_matrix<T>(n, m, 2);
      const Dense<T> turned = flip ? adjoint(q) : q;
      const auto want = left ? product(turned, c) : product(c, turned);
      run_apply_reflections(kDType<T>, h.batch(), tau.data(), k, k, c.batch(), left, flip);
      EXPECT_LT(distance(c, want) / units(c), 10) << left << flip;
    }
  }
}

template <class T>
Dense<T> solve(LeastSquares method, Dense<T> a, const Dense<T>& b, double rcond, int64_t* rank) {
  Dense<T> x(std::max(a.rows, a.cols), b.cols);
  std::copy(b.data.begin(), b.data.end(), x.data.begin());
  int32_t failed = -1;
  run_least_squares(kDType<T>, method, rcond, a.batch(), x.batch(), rank, &failed);
  EXPECT_EQ(failed, 0);
  Dense<T> r(a.cols, b.cols);
  std::copy_n(x.data.begin(), r.data.size(), r.data.begin());
  return r;
}

TYPED_TEST(Orthogonal, LeastSquaresMakeTheGradientZero) {
  using T = TypeParam;
  const int64_t shapes[][2] = {{1, 1}, {7, 4}, {4, 7}, {80, 50}, {50, 80}, {64, 64}};
  for (const auto& s : shapes) {
    const Dense<T> a = random_matrix<T>(s[0], s[1]), b = random_matrix<T>(s[0], 3, 2);
    Dense<T> plain = solve(LeastSquares::kFullRank, a, b, 0, nullptr);
    int64_t rank = -1;
    Dense<T> pivoted = solve(LeastSquares::kPivoted, a, b, kEps<T> * 100, &rank);
    EXPECT_EQ(rank, std::min(s[0], s[1]));
    for (const Dense<T>* x : {&plain, &pivoted}) {
      auto rest = product(a, *x);
      for (size_t i = 0; i < rest.data.size(); ++i) rest.data[i] -= b.data[i];
      EXPECT_LT(size(product(adjoint(a), rest)) / (units(a) * size(a) * (size(*x) + 1)), 10);
    }
    EXPECT_LT(distance(plain, pivoted) / size(plain), 1e5 * kEps<T>);
  }
}

TYPED_TEST(Orthogonal, SmallestSolutionOfDeficientMatrices) {
  using T = TypeParam;
  const Dense<T> thin = random_matrix<T>(30, 5), wide = random_matrix<T>(5, 20, 3);
  const auto exact = product(thin, wide);
  Dense<T> a(30, 20);
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<T>(exact.data[i]);
  const Dense<T> b = random_matrix<T>(30, 2, 4);
  int64_t rank = -1;
  const Dense<T> x = solve(LeastSquares::kPivoted, a, b, 1000 * kEps<T>, &rank);
  EXPECT_EQ(rank, 5);
  // In the space of A's rows: x = wide^H y.
  Dense<T> rows = adjoint(wide);
  Dense<T> y = solve(LeastSquares::kFullRank, rows, x, 0, nullptr);
  EXPECT_LT(distance(product(rows, y), x) / size(x), 1e3 * kEps<T>);
}

// Matrices that go by groups beside such as need another way: zeros, equal columns, tiny numbers.
TYPED_TEST(Orthogonal, LeastSquaresOfManySmallMatrices) {
  using T = TypeParam;
  using R = Real<T>;
  const int64_t count = 21, width = 5;
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {12, 5}, {32, 32}, {40, 17}, {7, 9}})
    for (const bool any_rank : {false, true}) {
      const int64_t rows = std::max(m, n);
      std::vector<T> a, b;
      for (int64_t k = 0; k < count; ++k) {
        Dense<T> one = random_matrix<T>(m, n, static_cast<unsigned>(k + 1));
        for (T& x : one.data)
          if (any_rank && k % 5 == 1) x = T(0);
        for (T& x : one.data)
          if (k % 5 == 2) x *= std::numeric_limits<R>::min() * 64;
        for (int64_t i = 0; any_rank && k % 5 == 3 && i < m; ++i) one(i, n - 1) = one(i, 0);
        a.insert(a.end(), one.data.begin(), one.data.end());
        const Dense<T> right = random_matrix<T>(rows, width, static_cast<unsigned>(k + 100));
        b.insert(b.end(), right.data.begin(), right.data.end());
      }
      const auto method = any_rank ? LeastSquares::kPivoted : LeastSquares::kFullRank;
      const auto run = [&](int64_t first, int64_t some, std::vector<T>& x, int64_t* ranks, int32_t* failed) {
        run_least_squares(kDType<T>, method, 100 * kEps<T>, {a.data() + first * m * n, some, m, n, n, 1, m * n},
                          {x.data() + first * rows * width, some, rows, width, width, 1, rows * width}, ranks, failed);
      };
      std::vector<T> together = b, apart = b;
      std::vector<int64_t> ranks(count, -1), wanted(count, -1);
      std::vector<int32_t> failed(count, -1);
      run(0, count, together, ranks.data(), failed.data());
      for (int64_t k = 0; k < count; ++k) run(k, 1, apart, &wanted[static_cast<size_t>(k)], nullptr);
      if (any_rank) { EXPECT_EQ(ranks, wanted) << m << " x " << n; }
      EXPECT_EQ(failed, std::vector<int32_t>(count, 0)) << m << " x " << n;
      for (int64_t k = 0; k < count; ++k) {
        Dense<T> x(n, width), y(n, width);
        std::copy_n(together.data() + k * rows * width, n * width, x.data.data());
        std::copy_n(apart.data() + k * rows * width, n * width, y.data.data());
        EXPECT_LE(distance(x, y), 3e4 * kEps<T> * size(y)) << m << " x " << n << ", " << k;
      }
    }
}

TYPED_TEST(Orthogonal, TheSameBitsAtAnyNumberOfThreads) {
  using T = TypeParam;
  const Dense<T> a = random_matrix<T>(300, 280);
  const int before = num_threads();
  set_num_threads(1);
  const Factors<T> one = factor(a, false);
  set_num_threads(4);
  const Factors<T> four = factor(a, false);
  set_num_threads(before);
  EXPECT_EQ(one.q.data, four.q.data);
  EXPECT_EQ(one.r.data, four.r.data);
}

}  // namespace
}  // namespace tessera::cpu::testing
