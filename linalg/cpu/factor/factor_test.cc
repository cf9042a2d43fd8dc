// Factorizations by their residuals, in units of |A| eps, over sizes on both sides of every cut.
#include "linalg/cpu/factor/factor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "linalg/cpu/numbers.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

using namespace numbers;

// Row-major, `count` matrices.
template <class T>
struct Matrices {
  int64_t count, rows, cols;
  std::vector<T> data;

  Matrices(int64_t c, int64_t m, int64_t n) : count(c), rows(m), cols(n), data(c * m * n) {}
  T& at(int64_t b, int64_t i, int64_t j) { return data[(b * rows + i) * cols + j]; }
  T at(int64_t b, int64_t i, int64_t j) const { return data[(b * rows + i) * cols + j]; }
  MatrixBatch batch() { return {data.data(), count, rows, cols, cols, 1, rows * cols}; }
};

template <class T>
Matrices<T> noise(int64_t count, int64_t m, int64_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrices<T> a(count, m, n);
  for (T& x : a.data) {
    if constexpr (kIsComplex<T>)
      x = T(static_cast<Real<T>>(normal(random)), static_cast<Real<T>>(normal(random)));
    else
      x = static_cast<T>(normal(random));
  }
  return a;
}

template <class T>
Matrices<T> product(const Matrices<T>& a, const Matrices<T>& b, bool adjoint_b = false, bool conj_b = true) {
  const int64_t n = adjoint_b ? b.rows : b.cols;
  Matrices<T> c(a.count, a.rows, n);
  for (int64_t q = 0; q < a.count; ++q)
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t p = 0; p < a.cols; ++p) {
        const T x = a.at(q, i, p);
        for (int64_t j = 0; j < n; ++j)
          c.at(q, i, j) += x * (adjoint_b ? (conj_b ? conjugate(b.at(q, j, p)) : b.at(q, j, p)) : b.at(q, p, j));
      }
  return c;
}

template <class T>
double largest(const Matrices<T>& a) {
  double r = 0;
  for (const T& x : a.data) r = std::max(r, static_cast<double>(std::abs(x)));
  return r;
}

// The largest sum of a row.
template <class T>
double norm(const Matrices<T>& a) {
  double r = 0;
  for (int64_t b = 0; b < a.count; ++b)
    for (int64_t i = 0; i < a.rows; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < a.cols; ++j) sum += std::abs(a.at(b, i, j));
      r = std::max(r, sum);
    }
  return r;
}

// |a - b| / (scale eps), by elements; nan counts as infinite.
template <class T>
double ratio(const Matrices<T>& a, const Matrices<T>& b, double scale) {
  double r = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    const double d = std::abs(a.data[i] - b.data[i]);
    if (std::isnan(d)) return INFINITY;
    r = std::max(r, d);
  }
  return r / (scale * std::numeric_limits<Real<T>>::epsilon());
}

// What `solve` makes of right-hand sides that have dense columns or rows, in their place or read where they are.
template <class T, class F>
Matrices<T> solved(const Matrices<T>& b, bool by_columns, bool is_apart, const F& solve) {
  const auto turned = [](const Matrices<T>& m) {
    Matrices<T> t(m.count, m.cols, m.rows);
    for (int64_t q = 0; q < m.count; ++q)
      for (int64_t i = 0; i < m.rows; ++i)
        for (int64_t j = 0; j < m.cols; ++j) t.at(q, j, i) = m.at(q, i, j);
    return t;
  };
  const Matrices<T> from = by_columns ? turned(b) : b;
  Matrices<T> x = from;
  if (is_apart) std::fill(x.data.begin(), x.data.end(), T(NAN));
  MatrixBatch batch = x.batch();
  if (by_columns) {
    std::swap(batch.rows, batch.cols);
    std::swap(batch.row_stride, batch.col_stride);
  }
  if (is_apart) batch.from = from.data.data();
  solve(batch);
  return by_columns ? turned(x) : x;
}

template <class T>
struct Factor : testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Factor, Types);

struct Size {
  int64_t count, m, n;
};
constexpr Size kSizes[] = {{1, 1, 1},    {1, 2, 2},     {3, 3, 3},    {40, 4, 4},   {33, 8, 8},    {17, 31, 31},
                           {20, 5, 9},   {20, 9, 5},    {1, 63, 63},  {1, 64, 64},  {1, 65, 65},   {2, 70, 130},
                           {2, 130, 70}, {1, 200, 200}, {1, 33, 300}, {1, 300, 33}, {1, 257, 257}, {40, 33, 33},
                           {17, 24, 24}, {20, 52, 52},  {20, 40, 60}, {20, 60, 27}, {17, 64, 64},  {1, 520, 516}};

template <class T>
Matrices<T> rebuilt(const Matrices<T>& lu, const std::vector<int32_t>& pivots) {
  const int64_t m = lu.rows, n = lu.cols, k = std::min(m, n);
  Matrices<T> l(lu.count, m, k), u(lu.count, k, n);
  for (int64_t b = 0; b < lu.count; ++b) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) l.at(b, i, j) = i == j ? T(1) : j < i ? lu.at(b, i, j) : T(0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < n; ++j) u.at(b, i, j) = lu.at(b, i, j);
  }
  Matrices<T> a = product(l, u);
  for (int64_t b = 0; b < lu.count; ++b)
    for (int64_t i = k - 1; i >= 0; --i) {
      const int64_t p = pivots[b * k + i] - 1;
      EXPECT_GE(p, i);
      EXPECT_LT(p, m);
      for (int64_t j = 0; j < n; ++j) std::swap(a.at(b, i, j), a.at(b, p, j));
    }
  return a;
}

TYPED_TEST(Factor, Lu) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.count << " of " << s.m << " x " << s.n);
    const Matrices<T> a = noise<T>(s.count, s.m, s.n);
    const int64_t k = std::min(s.m, s.n);
    for (const bool by_columns : {false, true}) {
      SCOPED_TRACE(by_columns);
      std::vector<int32_t> pivots(s.count * k, -1), info(s.count, -1);
      const auto factored = [&](bool is_apart) {
        return solved(a, by_columns, is_apart,
                      [&](const MatrixBatch& lu) { run_lu_factor(kDType<T>, lu, pivots.data(), info.data()); });
      };
      const Matrices<T> lu = factored(false);
      for (int32_t i : info) EXPECT_EQ(i, 0);
      EXPECT_LT(ratio(a, rebuilt(lu, pivots), norm(a)), 30);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < s.m; ++i)
          for (int64_t j = 0; j < std::min(i, k); ++j) EXPECT_LE(std::abs(lu.at(b, i, j)), 1.5);
      EXPECT_TRUE(factored(true).data == lu.data);
    }
  }
}

TYPED_TEST(Factor, LuOfSingularMatricesSaysWhere) {
  using T = TypeParam;
  for (const int64_t n : {3, 40, 100}) {
    for (const int64_t count : {1, 50}) {
      Matrices<T> a = noise<T>(count, n, n);
      for (int64_t b = 0; b < count; ++b)
        for (int64_t i = 0; i < n; ++i) a.at(b, i, 1) = T(0);
      Matrices<T> lu = a;
      std::vector<int32_t> pivots(count * n), info(count);
      run_lu_factor(kDType<T>, lu.batch(), pivots.data(), info.data());
      for (int32_t i : info) EXPECT_EQ(i, 2);
      EXPECT_LT(ratio(a, rebuilt(lu, pivots), norm(a)), 30);
    }
  }
}

TYPED_TEST(Factor, LuSolvesEveryForm) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    Matrices<T> a = noise<T>(s.count, s.n, s.n);
    for (int64_t b = 0; b < s.count; ++b)
      for (int64_t i = 0; i < s.n; ++i) a.at(b, i, i) += T(static_cast<Real<T>>(2 * std::sqrt(s.n)));
    Matrices<T> lu = a;
    std::vector<int32_t> pivots(s.count * s.n), info(s.count);
    run_lu_factor(kDType<T>, lu.batch(), pivots.data(), info.data());
    for (const int64_t width : {1, 3, 20}) {
      for (int form = 0; form < 16; ++form) {
        SCOPED_TRACE(testing::Message() << s.count << " of " << s.n << ", " << width << " columns, form " << form);
        const bool transposed = form & 1, conj = form & 2, by_columns = form & 4, is_apart = form & 8;
        Matrices<T> system(s.count, s.n, s.n);
        for (int64_t b = 0; b < s.count; ++b)
          for (int64_t i = 0; i < s.n; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
              const T x = transposed ? a.at(b, j, i) : a.at(b, i, j);
              system.at(b, i, j) = conj ? conjugate(x) : x;
            }
        const Matrices<T> b = noise<T>(s.count, s.n, width, 7);
        const Matrices<T> x = solved(b, by_columns, is_apart, [&](const MatrixBatch& to) {
          run_lu_solve(kDType<T>, lu.batch(), pivots.data(), {transposed, conj}, to);
        });
        EXPECT_LT(ratio(b, product(system, x), norm(a) * norm(x)), 30);
      }
    }
  }
}

TYPED_TEST(Factor, Inverse) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    SCOPED_TRACE(testing::Message() << s.count << " of " << s.n);
    const Matrices<T> a = noise<T>(s.count, s.n, s.n);
    Matrices<T> x = a, eye(s.count, s.n, s.n);
    for (int64_t b = 0; b < s.count; ++b)
      for (int64_t i = 0; i < s.n; ++i) eye.at(b, i, i) = T(1);
    std::vector<int32_t> info(s.count, -1);
    run_inverse(kDType<T>, x.batch(), info.data());
    for (int32_t i : info) EXPECT_EQ(i, 0);
    EXPECT_LT(ratio(eye, product(x, a), norm(a) * norm(x)), 30);
  }
}

TYPED_TEST(Factor, Determinants) {
  using T = TypeParam;
  using R = Real<T>;
  Matrices<T> a(1, 3, 3);
  const int entries[] = {0, 2, 1, 3, 0, 0, 1, 1, 4};
  for (int i = 0; i < 9; ++i) a.data[i] = T(static_cast<R>(entries[i]));
  std::vector<int32_t> pivots(3), info(1);
  run_lu_factor(kDType<T>, a.batch(), pivots.data(), info.data());
  T value, sign;
  R logabs;
  run_determinant(kDType<T>, a.batch(), pivots.data(), {&value, &sign, &logabs});
  EXPECT_NEAR(std::abs(value - T(-21)), 0, 1e-4);
  EXPECT_NEAR(std::abs(sign - T(-1)), 0, 1e-6);
  EXPECT_NEAR(logabs, std::log(21.0), 1e-5);
}

TYPED_TEST(Factor, Cholesky) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    for (const bool upper : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.count << " of " << s.n << (upper ? " upper" : " lower"));
      const Matrices<T> half = noise<T>(s.count, s.n, s.n);
      Matrices<T> a = product(half, half, true);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < s.n; ++i) a.at(b, i, i) += T(1);
      Matrices<T> l = a;
      for (int64_t b = 0; b < s.count; ++b)  // the other triangle is not read
        for (int64_t i = 0; i < s.n; ++i)
          for (int64_t j = i + 1; j < s.n; ++j) (upper ? l.at(b, j, i) : l.at(b, i, j)) = T(NAN);
      std::vector<int32_t> info(s.count, -1);
      run_cholesky(kDType<T>, l.batch(), upper, info.data());
      for (int32_t i : info) EXPECT_EQ(i, 0);
      if (upper) {
        Matrices<T> adjoint(s.count, s.n, s.n);
        for (int64_t b = 0; b < s.count; ++b)
          for (int64_t i = 0; i < s.n; ++i)
            for (int64_t j = 0; j < s.n; ++j) adjoint.at(b, i, j) = conjugate(l.at(b, j, i));
        l = adjoint;
      }
      EXPECT_LT(ratio(a, product(l, l, true), norm(a)), 30);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < s.n; ++i)
          for (int64_t j = i + 1; j < s.n; ++j) EXPECT_EQ(l.at(b, i, j), T(0));
    }
  }
}

TYPED_TEST(Factor, CholeskySaysWhichMinorIsNotPositive) {
  using T = TypeParam;
  for (const int64_t n : {5, 7, 60, 150}) {
    for (const int64_t count : {1, 40}) {
      for (const int64_t bad : {int64_t{0}, int64_t{2}, n / 2, n - 1}) {
        Matrices<T> a(count, n, n);
        for (int64_t b = 0; b < count; ++b)
          for (int64_t i = 0; i < n; ++i) a.at(b, i, i) = i == bad ? T(-1) : T(2);
        std::vector<int32_t> info(count);
        run_cholesky(kDType<T>, a.batch(), false, info.data());
        for (int32_t i : info) EXPECT_EQ(i, bad + 1);
      }
    }
  }
}

// Of numbers whose roots, or reciprocals of them, need care.
TYPED_TEST(Factor, CholeskyOfExtremeNumbers) {
  using T = TypeParam;
  using Limits = std::numeric_limits<Real<T>>;
  const Real<T> numbers[] = {Limits::denorm_min(), Limits::min(), 1, Limits::max(), Limits::infinity()};
  Matrices<T> a(20, 5, 5);
  for (int64_t b = 0; b < a.count; ++b)
    for (int64_t i = 0; i < 5; ++i) a.at(b, i, i) = numbers[(i + b) % 5];
  Matrices<T> l = a;
  std::vector<int32_t> info(a.count, -1);
  run_cholesky(kDType<T>, l.batch(), false, info.data());
  for (int64_t b = 0; b < a.count; ++b) {
    EXPECT_EQ(info[b], 0);
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 5; ++j) {
        const Real<T> found = real_part(l.at(b, i, j)), root = i == j ? std::sqrt(numbers[(i + b) % 5]) : 0;
        if (root > 0 && std::isfinite(root))
          EXPECT_NEAR(found / root, 1, 2 * Limits::epsilon()) << root;
        else
          EXPECT_EQ(found, root) << b << " " << i << " " << j;
      }
  }
}

TYPED_TEST(Factor, CholeskySolvesEveryForm) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    Matrices<T> factor = noise<T>(s.count, s.n, s.n), adjoint = factor;
    for (int64_t b = 0; b < s.count; ++b)
      for (int64_t i = 0; i < s.n; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          if (i == j) factor.at(b, i, i) += T(static_cast<Real<T>>(2 * std::sqrt(s.n)));
          if (i < j) factor.at(b, i, j) = T(0);
          adjoint.at(b, j, i) = conjugate(factor.at(b, i, j));
        }
    const Matrices<T> a = product(factor, factor, true);
    for (Matrices<T>* m : {&factor, &adjoint})
      for (T& x : m->data)
        if (x == T(0)) x = T(NAN);  // what is not read
    for (const int64_t width : {1, 3, 27, 70}) {
      for (int form = 0; form < 8; ++form) {
        const Matrices<T> b = noise<T>(s.count, s.n, width, 7);
        const Matrices<T> x = solved(b, form & 1, form & 2, [&](const MatrixBatch& to) {
          run_cholesky_solve(kDType<T>, form & 4 ? adjoint.batch() : factor.batch(), form & 4, to);
        });
        EXPECT_LT(ratio(b, product(a, x), norm(a) * norm(x)), 30)
            << s.count << " of " << s.n << ", " << width << " columns, form " << form;
      }
    }
  }
}

TYPED_TEST(Factor, CholeskyInverse) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    const int64_t n = s.n;
    for (int form = 0; form < 4; ++form) {
      const bool upper = form & 1, by_columns = form & 2;
      SCOPED_TRACE(testing::Message() << s.count << " of " << n << ", form " << form);
      Matrices<T> factor = noise<T>(s.count, n, n), memory(s.count, n, n), eye = memory, x = memory;
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            if (i == j) factor.at(b, i, i) += T(static_cast<Real<T>>(2 * std::sqrt(n)));
            const bool is_read = upper ? i <= j : i >= j;
            (by_columns ? memory.at(b, j, i) : memory.at(b, i, j)) = is_read ? factor.at(b, i, j) : T(NAN);
            if (!is_read) factor.at(b, i, j) = T(0);
            eye.at(b, i, j) = T(i == j ? 1 : 0);
          }
      if (upper) {
        const Matrices<T> u = factor;
        for (int64_t b = 0; b < s.count; ++b)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) factor.at(b, i, j) = conjugate(u.at(b, j, i));
      }
      MatrixBatch batch = memory.batch();
      if (by_columns) std::swap(batch.row_stride, batch.col_stride);
      run_cholesky_inverse(kDType<T>, batch, upper);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) x.at(b, i, j) = by_columns ? memory.at(b, j, i) : memory.at(b, i, j);
      const Matrices<T> a = product(factor, factor, true);
      EXPECT_LT(ratio(eye, product(x, a), norm(a) * norm(x)), 30);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) EXPECT_EQ(x.at(b, i, j), conjugate(x.at(b, j, i)));
    }
  }
}

TYPED_TEST(Factor, TriangularSystems) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    Matrices<T> a = noise<T>(s.count, s.n, s.n);
    for (T& x : a.data) x /= T(static_cast<Real<T>>(s.n));
    for (int64_t b = 0; b < s.count; ++b)
      for (int64_t i = 0; i < s.n; ++i) a.at(b, i, i) += T(2);
    for (const int64_t width : {1, 5, 27, 70}) {
      for (int form = 0; form < 32; ++form) {
        SCOPED_TRACE(testing::Message() << s.count << " of " << s.n << ", " << width << " columns, form " << form);
        const bool upper = form & 1, unit = form & 2, conj = form & 4, by_columns = form & 8, is_apart = form & 16;
        Matrices<T> triangle(s.count, s.n, s.n);
        for (int64_t b = 0; b < s.count; ++b)
          for (int64_t i = 0; i < s.n; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
              const T x = i == j ? (unit ? T(1) : a.at(b, i, j)) : (upper ? i < j : i > j) ? a.at(b, i, j) : T(0);
              triangle.at(b, i, j) = conj ? conjugate(x) : x;
            }
        const Matrices<T> b = noise<T>(s.count, s.n, width, 7);
        const Matrices<T> x = solved(b, by_columns, is_apart, [&](const MatrixBatch& to) {
          run_triangular_solve(kDType<T>, a.batch(), {upper, unit, conj}, to);
        });
        EXPECT_LT(ratio(b, product(triangle, x), norm(triangle) * largest(x)), 30);
      }
    }
  }
}

TYPED_TEST(Factor, TriangularSystemsWithTinyAndZeroPivots) {
  using T = TypeParam;
  using R = Real<T>;
  const R tiny = std::numeric_limits<R>::denorm_min() * 4;
  for (const int64_t count : {1, 3}) {  // few columns, and a batch that goes by rows
    const int64_t width = count == 1 ? 1 : 64;
    Matrices<T> a(count, 5, 5), b(count, 5, width);
    for (int64_t q = 0; q < count; ++q)
      for (int64_t i = 0; i < 5; ++i) {
        a.at(q, i, i) = T(i == 1 ? tiny : i == 4 ? 0 : 1);
        for (int64_t j = 0; j < width; ++j) b.at(q, i, j) = T(i == 1 ? tiny : 3);
      }
    for (const bool is_apart : {false, true}) {
      const Matrices<T> x = solved(b, false, is_apart, [&](const MatrixBatch& to) {
        run_triangular_solve(kDType<T>, a.batch(), {false, false, false}, to);
      });
      for (int64_t q = 0; q < count; ++q)
        for (int64_t j = 0; j < width; ++j) {
          EXPECT_EQ(x.at(q, 0, j), T(3));
          EXPECT_EQ(x.at(q, 1, j), T(1));
          EXPECT_FALSE(std::isfinite(std::abs(x.at(q, 4, j))));
        }
    }
  }
}

TYPED_TEST(Factor, LdlSolvesIndefiniteSystems) {
  using T = TypeParam;
  for (const Size s : kSizes) {
    if (s.m != s.n) continue;
    for (const bool hermitian : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.count << " of " << s.n << (hermitian ? " hermitian" : " symmetric"));
      Matrices<T> a = noise<T>(s.count, s.n, s.n);
      for (int64_t b = 0; b < s.count; ++b)
        for (int64_t i = 0; i < s.n; ++i)
          for (int64_t j = 0; j <= i; ++j) {
            if (i == j && s.n > 1 && (s.n + b) % 2 == 0) a.at(b, i, i) = T(0);  // blocks of two
            if (i == j && hermitian) a.at(b, i, i) = T(std::real(a.at(b, i, i)));
            a.at(b, j, i) = hermitian ? conjugate(a.at(b, i, j)) : a.at(b, i, j);
          }
      Matrices<T> ld = a;
      std::vector<int32_t> pivots(s.count * s.n), info(s.count, -1);
      run_ldl_factor(kDType<T>, ld.batch(), hermitian, pivots.data(), info.data());
      for (int32_t i : info) EXPECT_EQ(i, 0);
      for (const int64_t width : {3, 27}) {
        for (int form = 0; form < 4; ++form) {
          const Matrices<T> b = noise<T>(s.count, s.n, width, 7);
          const Matrices<T> x = solved(b, form & 1, form & 2, [&](const MatrixBatch& to) {
            run_ldl_solve(kDType<T>, ld.batch(), pivots.data(), hermitian, to);
          });
          EXPECT_LT(ratio(b, product(a, x), norm(a) * largest(x)), 30) << width << " " << form;
        }
      }
    }
  }
}

TYPED_TEST(Factor, LdlOfTinyPivots) {
  using T = TypeParam;
  using R = Real<T>;
  const R tiny = std::numeric_limits<R>::denorm_min() * 4;
  for (const int64_t width : {1, 64}) {
    Matrices<T> ld(3, 5, 5), b(3, 5, width);
    std::vector<int32_t> pivots(15);
    for (int64_t q = 0; q < 3; ++q)
      for (int64_t i = 0; i < 5; ++i) {
        pivots[q * 5 + i] = static_cast<int32_t>(i + 1);
        ld.at(q, i, i) = T(i == 1 ? tiny : 1);
        for (int64_t j = 0; j < width; ++j) b.at(q, i, j) = T(i == 1 ? tiny : 3);
      }
    const Matrices<T> x = solved(
        b, false, true, [&](const MatrixBatch& to) { run_ldl_solve(kDType<T>, ld.batch(), pivots.data(), false, to); });
    for (int64_t q = 0; q < 3; ++q)
      for (int64_t j = 0; j < width; ++j) {
        EXPECT_EQ(x.at(q, 0, j), T(3));
        EXPECT_EQ(x.at(q, 1, j), T(1));
      }
  }
}

TEST(FactorThreads, SameBits) {
  const int before = num_threads();
  const auto all = [] {
    std::vector<float> bits;
    for (const int64_t n : {24, 150, 500}) {
      const int64_t count = n == 24 ? 60 : 2;
      Matrices<float> a = noise<float>(count, n, n), inverse = a, spd = product(a, a, true);
      std::vector<int32_t> pivots(count * n), info(count);
      Matrices<float> lu(count, n, n), x = noise<float>(count, n, 100, 3);
      MatrixBatch apart = lu.batch();
      apart.from = a.data.data();
      run_lu_factor(DType::kFloat32, apart, pivots.data(), info.data());
      run_lu_solve(DType::kFloat32, lu.batch(), pivots.data(), {}, x.batch());
      run_inverse(DType::kFloat32, inverse.batch(), info.data());
      for (int64_t b = 0; b < count; ++b)
        for (int64_t i = 0; i < n; ++i) spd.at(b, i, i) += 1;
      run_cholesky(DType::kFloat32, spd.batch(), false, info.data());
      Matrices<float> product_inverse = spd;
      run_cholesky_inverse(DType::kFloat32, product_inverse.batch(), false);
      for (const auto* m : {&lu, &x, &inverse, &spd, &product_inverse})
        bits.insert(bits.end(), m->data.begin(), m->data.end());
    }
    return bits;
  };
  set_num_threads(1);
  const std::vector<float> one = all();
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    const std::vector<float> more = all();
    EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0) << threads;
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
