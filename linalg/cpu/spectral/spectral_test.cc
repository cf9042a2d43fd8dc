// Residuals of eigenvalues and singular values, as LAPACK counts them, on matrices that break naive code.
#include "linalg/cpu/spectral/spectral.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "linalg/cpu/numbers.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

using namespace numbers;

template <class T>
struct Matrix {
  int64_t rows, cols;
  std::vector<T> data;
  Matrix(int64_t m, int64_t n) : rows(m), cols(n), data(m * n) {}
  T& operator()(int64_t i, int64_t j) { return data[i * cols + j]; }
  const T& operator()(int64_t i, int64_t j) const { return data[i * cols + j]; }
  MatrixBatch batch() { return {data.data(), 1, rows, cols, cols, 1, rows * cols}; }
};

template <class T>
T number(std::mt19937& g) {
  std::normal_distribution<Real<T>> normal;
  if constexpr (kIsComplex<T>)
    return {normal(g), normal(g)};
  else
    return normal(g);
}
template <class T>
Matrix<T> random_matrix(int64_t m, int64_t n, unsigned seed) {
  std::mt19937 g(seed);
  Matrix<T> a(m, n);
  for (T& x : a.data) x = number<T>(g);
  return a;
}

template <class T>
double norm1(const Matrix<T>& a) {
  double largest = 0;
  for (int64_t j = 0; j < a.cols; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows; ++i) sum += std::abs(a(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}
// a b, with the conjugate transposes where asked for.
template <class T>
Matrix<T> product(const Matrix<T>& a, bool ah, const Matrix<T>& b, bool bh) {
  const int64_t m = ah ? a.cols : a.rows, k = ah ? a.rows : a.cols, n = bh ? b.rows : b.cols;
  Matrix<T> c(m, n);
  const MatrixRef x{const_cast<T*>(a.data.data()), ah ? 1 : a.cols, ah ? a.cols : 1},
      y{const_cast<T*>(b.data.data()), bh ? 1 : b.cols, bh ? b.cols : 1};
  gemm(kDType<T>, m, n, k, numbers::number(T(1)), x, y, numbers::number(T(0)), {c.data.data(), n, 1}, ah, bh);
  return c;
}
// |Q^H Q - I| / (n eps).
template <class T>
double orthogonality(const Matrix<T>& q) {
  Matrix<T> g = product(q, true, q, false);
  for (int64_t i = 0; i < g.rows; ++i) g(i, i) -= T{1};
  return norm1(g) / (static_cast<double>(q.rows) * std::numeric_limits<Real<T>>::epsilon());
}

// |A - V W V^H| and |V^H V - I| over n |A| eps.
template <class T>
void expect_eigh(Matrix<T> a, const std::string& what) {
  using R = Real<T>;
  const int64_t n = a.rows;
  const double scale = static_cast<double>(n) * std::numeric_limits<R>::epsilon() *
                       std::max(norm1(a), static_cast<double>(std::numeric_limits<R>::min()));
  for (bool lower : {true, false}) {
    Matrix<T> one_side = a, v(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (lower ? j > i : j < i) one_side(i, j) = std::numeric_limits<R>::quiet_NaN();
    std::vector<R> w(n), only(n);
    int32_t info = -7;
    const MatrixBatch to = v.batch();
    run_eigh(kDType<T>, one_side.batch(), lower, w.data(), &to, &info);
    ASSERT_EQ(info, 0) << what;
    EXPECT_TRUE(std::is_sorted(w.begin(), w.end())) << what;
    Matrix<T> scaled = v;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) scaled(i, j) *= w[j];
    Matrix<T> back = product(scaled, false, v, true);
    for (size_t i = 0; i < back.data.size(); ++i) back.data[i] -= a.data[i];
    EXPECT_LT(norm1(back) / scale, 30) << what;
    EXPECT_LT(orthogonality(v), 30) << what;
    run_eigh(kDType<T>, one_side.batch(), lower, only.data(), nullptr, &info);
    ASSERT_EQ(info, 0) << what;
    for (int64_t i = 0; i < n; ++i) EXPECT_LT(std::abs(static_cast<double>(w[i]) - only[i]) / scale, 30) << what;
  }
}

template <class T>
void expect_svd(Matrix<T> a, bool full, const std::string& what) {
  using R = Real<T>;
  const int64_t m = a.rows, n = a.cols, k = std::min(m, n);
  const double scale = static_cast<double>(std::max(m, n)) * std::numeric_limits<R>::epsilon() *
                       std::max(norm1(a), static_cast<double>(std::numeric_limits<R>::min()));
  Matrix<T> u(m, full ? m : k), vh(full ? n : k, n);
  std::vector<R> s(k), only(k);
  int32_t info = -7;
  const MatrixBatch to_u = u.batch(), to_vh = vh.batch();
  run_svd(kDType<T>, a.batch(), &to_u, s.data(), &to_vh, &info);
  ASSERT_EQ(info, 0) << what;
  EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend())) << what;
  EXPECT_TRUE(s.empty() || s.back() >= 0) << what;
  Matrix<T> us(m, k), some(k, n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) us(i, j) = u(i, j) * s[j];
  std::copy_n(vh.data.begin(), k * n, some.data.begin());
  Matrix<T> back = product(us, false, some, false);
  for (size_t i = 0; i < back.data.size(); ++i) back.data[i] -= a.data[i];
  EXPECT_LT(norm1(back) / scale, 30) << what;
  EXPECT_LT(orthogonality(u), 30) << what;
  Matrix<T> v(vh.cols, vh.rows);
  for (int64_t i = 0; i < v.rows; ++i)
    for (int64_t j = 0; j < v.cols; ++j) v(i, j) = conjugate(vh(j, i));
  EXPECT_LT(orthogonality(v), 30) << what;
  run_svd(kDType<T>, a.batch(), nullptr, only.data(), nullptr, &info);
  ASSERT_EQ(info, 0) << what;
  for (int64_t i = 0; i < k; ++i) EXPECT_LT(std::abs(static_cast<double>(s[i]) - only[i]) / scale, 30) << what;
}

// Matrices by name; all of them Hermitian.
template <class T>
std::vector<std::pair<std::string, Matrix<T>>> hermitian_matrices() {
  using R = Real<T>;
  std::vector<std::pair<std::string, Matrix<T>>> all;
  const auto add = [&](const std::string& name, int64_t n, auto&& element) {
    Matrix<T> a(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        a(i, j) = element(i, j);
        a(j, i) = conjugate(a(i, j));
        if (i == j) a(i, i) = real_part(a(i, i));
      }
    all.emplace_back(name + " of " + std::to_string(n), std::move(a));
  };
  std::mt19937 g(3);
  const auto any = [&](int64_t, int64_t) { return number<T>(g); };
  const R tiny = std::numeric_limits<R>::min(), huge = std::numeric_limits<R>::max();
  for (int64_t n : {1, 2, 3, 5, 8, 31, 32, 33, 34, 47, 64, 65, 97, 130, 200}) add("random", n, any);
  for (int64_t n : {6, 40, 100}) {
    add("zero", n, [](int64_t, int64_t) { return T{}; });
    add("identity", n, [](int64_t i, int64_t j) { return T(i == j ? 1 : 0); });
    add("ones", n, [](int64_t, int64_t) { return T(1); });
    add("Hilbert's", n, [](int64_t i, int64_t j) { return T(R{1} / static_cast<R>(i + j + 1)); });
    add("Wilkinson's", n, [&](int64_t i, int64_t j) {
      return T(i == j ? std::abs(static_cast<R>(n - 1) / 2 - static_cast<R>(i)) : i == j + 1 ? 1 : 0);
    });
    add("second differences", n, [](int64_t i, int64_t j) { return T(i == j ? 2 : i == j + 1 ? -1 : 0); });
    add("graded", n, [&](int64_t i, int64_t j) {
      return number<T>(g) *
             std::pow(R{10}, static_cast<R>(-12.0 * static_cast<double>(i + j) / static_cast<double>(n)));
    });
    add("graded upwards", n, [&](int64_t i, int64_t j) {
      return number<T>(g) *
             std::pow(R{10}, static_cast<R>(12.0 * static_cast<double>(i + j - 2 * n) / static_cast<double>(n)));
    });
    add("huge", n, [&](int64_t, int64_t) { return number<T>(g) * (huge / static_cast<R>(1000 * n)); });
    add("tiny", n, [&](int64_t, int64_t) { return number<T>(g) * (tiny * 1000); });
    add("denormal", n, [&](int64_t, int64_t) { return number<T>(g) * (tiny / 8); });
    add("clustered", n, [&](int64_t i, int64_t j) {
      return (i == j ? T(i % 3) : T{}) + number<T>(g) * (10 * std::numeric_limits<R>::epsilon());
    });
    add("glued", n, [&](int64_t i, int64_t j) {
      return T(i == j ? static_cast<R>(std::abs(10 - i % 21)) : i == j + 1 ? (i % 21 ? R{1} : R{1e-6}) : R{0});
    });
    add("huge and tiny", n,
        [&](int64_t i, int64_t j) { return number<T>(g) * (i < n / 2 && j < n / 2 ? R{1} : R{1e-25}); });
    add("of rank 2", n,
        [&](int64_t i, int64_t j) { return T(static_cast<R>((i + 1) * (j + 1) % 7 == 0 ? 1 : i + j)); });
  }
  return all;
}

template <class T>
class Spectral : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Spectral, Types);

TYPED_TEST(Spectral, EighOfHardMatrices) {
  for (auto& [name, a] : hermitian_matrices<TypeParam>()) expect_eigh(a, name);
}
TYPED_TEST(Spectral, SvdOfHardMatrices) {
  for (auto& [name, a] : hermitian_matrices<TypeParam>()) expect_svd(a, true, name);
}
TYPED_TEST(Spectral, SvdOfAnyShape) {
  for (int64_t m : {1, 2, 3, 7, 20, 33, 70, 120})
    for (int64_t n : {1, 2, 5, 33, 64, 90})
      for (bool full : {true, false})
        expect_svd(random_matrix<TypeParam>(m, n, static_cast<unsigned>(m * n)), full,
                   std::to_string(m) + " x " + std::to_string(n));
}
// With entries of a bidiagonal matrix that make QR's shifts useless.
TYPED_TEST(Spectral, SvdOfBidiagonalMatrices) {
  using R = Real<TypeParam>;
  for (int64_t n : {4, 20, 60, 100})
    for (int kind = 0; kind < 5; ++kind) {
      Matrix<TypeParam> a(n, n);
      for (int64_t i = 0; i < n; ++i) {
        const double t = static_cast<double>(i) / static_cast<double>(n);
        a(i, i) = static_cast<R>(kind == 0   ? (i == n / 2 ? 0 : 1)
                                 : kind == 1 ? std::pow(10, -20 * t)
                                 : kind == 2 ? std::pow(10, -20 * (1 - t))
                                 : kind == 3 ? (i % 3 ? 1e-18 : 1)
                                             : 0);
        if (i + 1 < n) a(i, i + 1) = 1;
      }
      expect_svd(a, true, "bidiagonal " + std::to_string(kind) + " of " + std::to_string(n));
    }
}

// Batches of small matrices give what each alone gives, nearly, and are as accurate.
template <class T>
void expect_batch(const std::vector<Matrix<T>>& all, const std::string& what) {
  using R = Real<T>;
  const int64_t m = all[0].rows, n = all[0].cols, k = std::min(m, n), count = static_cast<int64_t>(all.size());
  std::vector<T> data, u(count * m * m), vh(count * n * n), v(count * n * n);
  for (const Matrix<T>& a : all) data.insert(data.end(), a.data.begin(), a.data.end());
  std::vector<R> s(count * k), w(count * n), only(count * k);
  std::vector<int32_t> info(count, 9);
  const std::vector<int32_t> good(count);
  const MatrixBatch from{data.data(), count, m, n, n, 1, m * n}, to_u{u.data(), count, m, m, m, 1, m * m},
      to_vh{vh.data(), count, n, n, 1, n, n * n}, to_v{v.data(), count, n, n, 1, n, n * n};
  run_svd(kDType<T>, from, &to_u, s.data(), &to_vh, info.data());
  EXPECT_EQ(info, good) << what;
  run_svd(kDType<T>, from, nullptr, only.data(), nullptr, info.data());
  EXPECT_EQ(info, good) << what;
  if (m == n) {
    run_eigh(kDType<T>, from, true, w.data(), &to_v, info.data());
    EXPECT_EQ(info, good) << what;
  }
  for (int64_t b = 0; b < count; ++b) {
    const Matrix<T>& a = all[b];
    const double size = std::max(norm1(a), static_cast<double>(std::numeric_limits<R>::min())),
                 scale = static_cast<double>(std::max(m, n)) * std::numeric_limits<R>::epsilon() * size;
    Matrix<T> left(m, m), right(n, n), us(m, n);  // right: the vectors in columns
    std::copy_n(u.data() + b * m * m, m * m, left.data.data());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) right(i, j) = conjugate(vh[b * n * n + i * n + j]);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) us(i, j) = left(i, j) * s[b * k + j];
    Matrix<T> back = product(us, false, right, true);
    for (size_t i = 0; i < back.data.size(); ++i) back.data[i] -= a.data[i];
    EXPECT_LT(norm1(back) / scale, 30) << what << " " << b;
    EXPECT_LT(orthogonality(left), 30) << what << " " << b;
    EXPECT_LT(orthogonality(right), 30) << what << " " << b;
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_LT(std::abs(static_cast<double>(s[b * k + i]) - only[b * k + i]) / scale, 30) << what << " " << b;
      EXPECT_TRUE(i == 0 || s[b * k + i - 1] >= s[b * k + i]) << what << " " << b;
    }
    if (m != n) continue;
    Matrix<T> vectors(n, n), hermitian(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        vectors(i, j) = v[b * n * n + j * n + i];
        hermitian(i, j) = i >= j ? a(i, j) : conjugate(a(j, i));
      }
    for (int64_t i = 0; i < n; ++i) hermitian(i, i) = real_part(hermitian(i, i));
    Matrix<T> residual = product(hermitian, false, vectors, false);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) residual(i, j) -= vectors(i, j) * w[b * n + j];
    EXPECT_LT(norm1(residual) / scale, 30) << what << " " << b;
    EXPECT_LT(orthogonality(vectors), 30) << what << " " << b;
    EXPECT_TRUE(std::is_sorted(w.begin() + b * n, w.begin() + (b + 1) * n)) << what << " " << b;
  }
}
TYPED_TEST(Spectral, BatchesOfHardMatrices) {
  using R = Real<TypeParam>;
  for (int64_t n : {1, 2, 3, 5, 8, 16, 31, 32}) {
    std::vector<Matrix<TypeParam>> all;
    for (unsigned b = 0; b < 9; ++b) {
      all.push_back(random_matrix<TypeParam>(n, n, b));
      Matrix<TypeParam> zero(n, n), identity(n, n), shifts(n, n), ones(n, n), graded = all[0], hilbert(n, n),
                                                                              huge = all[0], tiny = all[0];
      for (int64_t i = 0; i < n; ++i) {
        identity(i, i) = 1;
        if (i + 1 < n) shifts(i, i + 1) = shifts(i + 1, i) = 1;
        for (int64_t j = 0; j < n; ++j) {
          ones(i, j) = 1;
          hilbert(i, j) = R{1} / static_cast<R>(i + j + 1);
          graded(i, j) *= std::pow(
              R{10}, static_cast<R>((b % 2 ? -20.0 : 20.0) * static_cast<double>(i + j - n) / static_cast<double>(n)));
          huge(i, j) *= std::numeric_limits<R>::max() / static_cast<R>(1000 * n);
          tiny(i, j) *= std::numeric_limits<R>::min() * (b % 2 ? R{100} : R{0.1});
        }
      }
      for (const auto& a : {zero, identity, shifts, ones, graded, hilbert, huge, tiny}) all.push_back(a);
    }
    expect_batch(all, "batch of " + std::to_string(n));
  }
}
TYPED_TEST(Spectral, BatchesOfAnyShape) {
  for (int64_t m : {1, 3, 8, 20, 33, 60})
    for (int64_t n : {1, 2, 7, 32, 40}) {
      std::vector<Matrix<TypeParam>> all;
      for (unsigned b = 0; b < 21; ++b) all.push_back(random_matrix<TypeParam>(m, n, b));
      expect_batch(all, std::to_string(m) + " x " + std::to_string(n));
    }
}

TYPED_TEST(Spectral, NotFinite) {
  using R = Real<TypeParam>;
  for (R bad : {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::infinity()}) {
    Matrix<TypeParam> a = random_matrix<TypeParam>(2 * 40, 40, 5), v(2 * 40, 40), u(2 * 40, 40);
    a(40 + 7, 3) = bad;
    std::vector<R> w(80, 5);
    std::vector<int32_t> info(2, 9);
    const auto halves = [](Matrix<TypeParam>& x) { return MatrixBatch{x.data.data(), 2, 40, 40, 40, 1, 1600}; };
    const MatrixBatch to = halves(v), other = halves(u);
    run_eigh(kDType<TypeParam>, halves(a), true, w.data(), &to, info.data());
    EXPECT_EQ(info, (std::vector<int32_t>{0, -1}));
    run_svd(kDType<TypeParam>, halves(a), &to, w.data(), &other, info.data());
    EXPECT_EQ(info, (std::vector<int32_t>{0, -1}));
    EXPECT_EQ(w, std::vector<R>(80, 5));  // nothing is written
    EXPECT_EQ(v.data, std::vector<TypeParam>(v.data.size()));
  }
}

TYPED_TEST(Spectral, SameBitsWithAnyNumberOfThreads) {
  using R = Real<TypeParam>;
  for (int64_t n : {40, 300}) {
    std::vector<std::vector<TypeParam>> results;
    for (int threads : {1, 3}) {
      set_num_threads(threads);
      Matrix<TypeParam> a = random_matrix<TypeParam>(n, n, 1), v(n, n), u(n, n), vh(n, n);
      std::vector<R> w(n);
      int32_t info;
      const MatrixBatch to = v.batch(), to_u = u.batch(), to_vh = vh.batch();
      run_eigh(kDType<TypeParam>, a.batch(), true, w.data(), &to, &info);
      run_svd(kDType<TypeParam>, a.batch(), &to_u, w.data(), &to_vh, &info);
      results.push_back(v.data);
      results.back().insert(results.back().end(), u.data.begin(), u.data.end());
      results.back().insert(results.back().end(), vh.data.begin(), vh.data.end());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace
}  // namespace tessera::cpu
