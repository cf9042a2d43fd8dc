// Divide and conquer on condensed matrices whose halves differ in size: of low rank, graded, clustered, with zeros.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "linalg/cpu/spectral/bidiagonal.h"
#include "linalg/cpu/spectral/tridiagonal.h"

namespace tessera::cpu::internal {
namespace {

using Numbers = std::vector<double>;

struct Diagonals {
  Numbers d, e;  // n, n - 1
  int64_t n() const { return static_cast<int64_t>(d.size()); }
  double largest() const {
    double most = 0;
    for (const Numbers* all : {&d, &e})
      for (double x : *all) most = std::max(most, std::abs(x));
    return most;
  }
};

// Of (position / n, random numbers): an element.
using Element = std::function<double(double, std::mt19937&)>;
struct Kind {
  const char* name;
  Element element;
};

double normal(std::mt19937& g) { return std::normal_distribution<double>()(g); }
bool one_of_two(std::mt19937& g) { return g() % 2 == 0; }

const Kind kKinds[] = {
    {"random", [](double, std::mt19937& g) { return normal(g); }},
    {"low rank", [](double t, std::mt19937& g) { return (t < 0.5 ? 1 : 1e-16) * normal(g); }},
    {"lower rank", [](double t, std::mt19937& g) { return (t < 0.1 ? 1 : 1e-16) * normal(g); }},
    {"nearly zero behind", [](double t, std::mt19937&) { return t < 0.1 ? 1 : 1e-150; }},
    {"graded", [](double t, std::mt19937& g) { return std::pow(10, -20 * t) * normal(g); }},
    {"graded upwards", [](double t, std::mt19937& g) { return std::pow(10, 200 * (t - 1)) * normal(g); }},
    {"graded far", [](double t, std::mt19937&) { return std::pow(10, -300 * t); }},
    {"clustered", [](double, std::mt19937& g) { return 1 + 1e-15 * normal(g); }},
    {"zeros", [](double, std::mt19937& g) { return one_of_two(g) ? 0 : normal(g); }},
    {"ones and nearly zeros", [](double, std::mt19937& g) { return one_of_two(g) ? 1 : 1e-160; }},
    {"of all sizes",
     [](double, std::mt19937& g) { return std::pow(10, -300 * static_cast<double>(g()) / 4294967296.0); }},
};

Diagonals diagonals(const Kind& kind, int64_t n, unsigned seed) {
  std::mt19937 g(seed);
  Diagonals m{Numbers(n), Numbers(n - 1)};
  for (int64_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(n);
    m.d[i] = kind.element(t, g);
    if (i + 1 < n) m.e[i] = kind.element(t, g);
  }
  // As those who call divide and conquer do.
  const double scale = std::ldexp(1.0, -std::ilogb(std::max(m.largest(), 1e-290)));
  for (Numbers* all : {&m.d, &m.e})
    for (double& x : *all) x *= scale;
  return m;
}

// Calls check(matrix, what) for all.
void for_matrices(const std::function<void(const Diagonals&, const std::string&)>& check) {
  for (const Kind& kind : kKinds)
    for (int64_t n : {33, 34, 65, 66, 67, 130})
      for (unsigned seed = 0; seed < 12; ++seed)
        check(diagonals(kind, n, seed),
              std::string(kind.name) + " of " + std::to_string(n) + ", seed " + std::to_string(seed));
}

// The largest element of |Q Q^T - I|, rows of Q.
template <class R>
double skewness(const std::vector<R>& q, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double sum = i == j ? -1 : 0;
      for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(q[i * n + k]) * static_cast<double>(q[j * n + k]);
      if (!(std::abs(sum) <= most)) most = std::abs(sum);  // keeps nan
    }
  return most;
}

template <class R>
class Conquer : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Conquer, Reals);

TYPED_TEST(Conquer, SingularVectors) {
  using R = TypeParam;
  for_matrices([](const Diagonals& m, const std::string& what) {
    const int64_t n = m.n();
    const double limit = 30.0 * static_cast<double>(n) * std::numeric_limits<R>::epsilon();
    std::vector<R> left(n * n), right(n * n);
    Diagonals work = m, only = m;
    ASSERT_TRUE(bidiagonal_vectors(work.d.data(), work.e.data(), n, left.data(), n, right.data(), n)) << what;
    ASSERT_TRUE(bidiagonal_values<R>(only.d.data(), only.e.data(), n)) << what;
    EXPECT_LT(skewness(left, n), limit) << what;
    EXPECT_LT(skewness(right, n), limit) << what;
    double residual = 0, apart = 0;
    for (int64_t i = 0; i < n; ++i) {
      const R* const v = right.data() + i * n;
      for (int64_t k = 0; k < n; ++k) {
        const double x = m.d[k] * v[k] + (k + 1 < n ? m.e[k] * v[k + 1] : 0) - work.d[i] * left[i * n + k];
        residual = std::max(residual, std::abs(x));
      }
      apart = std::max(apart, std::abs(work.d[i] - only.d[i]));
    }
    EXPECT_LT(residual / m.largest(), limit) << what;
    EXPECT_LT(apart / m.largest(), limit) << what;
  });
}

TYPED_TEST(Conquer, Eigenvectors) {
  using R = TypeParam;
  for_matrices([](const Diagonals& m, const std::string& what) {
    const int64_t n = m.n();
    const double limit = 30.0 * static_cast<double>(n) * std::numeric_limits<R>::epsilon();
    std::vector<R> rows(n * n);
    Diagonals work = m, only = m;
    ASSERT_TRUE(tridiagonal_eigenvectors(work.d.data(), work.e.data(), n, rows.data(), n)) << what;
    ASSERT_TRUE(tridiagonal_values<R>(only.d.data(), only.e.data(), n)) << what;
    EXPECT_LT(skewness(rows, n), limit) << what;
    double residual = 0, apart = 0;
    for (int64_t i = 0; i < n; ++i) {
      const R* const v = rows.data() + i * n;
      for (int64_t k = 0; k < n; ++k) {
        const double x = m.d[k] * v[k] + (k + 1 < n ? m.e[k] * v[k + 1] : 0) + (k > 0 ? m.e[k - 1] * v[k - 1] : 0) -
                         work.d[i] * v[k];
        residual = std::max(residual, std::abs(x));
      }
      apart = std::max(apart, std::abs(work.d[i] - only.d[i]));
    }
    EXPECT_LT(residual / m.largest(), limit) << what;
    EXPECT_LT(apart / m.largest(), limit) << what;
  });
}

}  // namespace
}  // namespace tessera::cpu::internal
