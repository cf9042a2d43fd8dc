// Distances between rows and their gradients, against the definition.
#include "nn/cpu/distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> numbers(int64_t n, std::mt19937& rng) {
  std::vector<T> v(n);
  for (T& x : v) x = static_cast<T>(std::normal_distribution<double>(0, 1)(rng));
  return v;
}

template <class T>
double distance(const T* a, const T* b, int64_t m, double norm) {
  double s = 0;
  for (int64_t k = 0; k < m; ++k) {
    const double d = std::abs(static_cast<double>(a[k]) - b[k]);
    s = norm == 0 ? s + (d != 0) : norm == kInf ? std::max(s, d) : s + std::pow(d, norm);
  }
  return norm == 0 || norm == kInf ? s : std::pow(s, 1 / norm);
}

template <class T>
void check(int64_t batch, int64_t p, int64_t r, int64_t m, double norm, bool by_product, std::mt19937& rng) {
  const auto x = numbers<T>(batch * p * m, rng), y = numbers<T>(batch * r * m, rng),
             grad = numbers<T>(batch * p * r, rng);
  std::vector<T> out(batch * p * r), dx(batch * p * m);
  pair_distances(DTypeOf<T>::value, batch, p, r, m, norm, by_product, x.data(), y.data(), out.data());
  const double tolerance = (sizeof(T) == 4 ? 2e-5 : 1e-12) * (by_product ? 100 : 1);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < p; ++i) {
      for (int64_t j = 0; j < r; ++j) {
        const double want = distance(&x[(b * p + i) * m], &y[(b * r + j) * m], m, norm);
        ASSERT_NEAR(out[(b * p + i) * r + j], want, tolerance * (1 + want)) << "norm " << norm;
      }
    }
  }
  if (norm == 0) return;
  pair_distances_backward(DTypeOf<T>::value, batch, p, r, m, norm, grad.data(), x.data(), y.data(), out.data(),
                          dx.data());
  // By differences, where the distance is smooth.
  if (sizeof(T) == 4 || by_product || norm < 1) return;
  const double h = 1e-6;
  for (int64_t i = 0; i < p; ++i) {
    for (int64_t k = 0; k < m; ++k) {
      double want = 0;
      for (int64_t j = 0; j < r; ++j) {
        auto moved = std::vector<T>(x.begin() + i * m, x.begin() + (i + 1) * m);
        moved[k] += static_cast<T>(h);
        const double up = distance(moved.data(), &y[j * m], m, norm);
        moved[k] -= static_cast<T>(2 * h);
        want += grad[i * r + j] * (up - distance(moved.data(), &y[j * m], m, norm)) / (2 * h);
      }
      ASSERT_NEAR(dx[i * m + k], want, 1e-4 * (1 + std::abs(want))) << "norm " << norm;
    }
  }
}

// The distances of single numbers from 0 are roots of their squares, rounded once, at any magnitude.
TEST(Distance, RootsOfProductsAreRounded) {
  std::mt19937 rng(3);
  for (const int64_t r : {1, 15, 16, 33, 64, 5000}) {
    const float x = 0;
    std::vector<float> y(r), out(r);
    for (float& v : y) {
      v = static_cast<float>(std::ldexp(std::uniform_real_distribution<double>(1, 2)(rng),
                                        std::uniform_int_distribution<int>(-20, 20)(rng)));
      if (rng() % 8 == 0) v = std::ldexp(v, rng() % 2 ? -50 : 40);
      if (rng() % 32 == 0) v = 0;
    }
    if (r > 40) y[20] = std::numeric_limits<float>::quiet_NaN();
    pair_distances(DType::kFloat32, 1, 1, r, 1, 2, true, &x, y.data(), out.data());
    for (int64_t j = 0; j < r; ++j) {
      if (std::isnan(y[j])) {
        EXPECT_TRUE(std::isnan(out[j]));
      } else {
        EXPECT_EQ(out[j], std::sqrt(static_cast<float>(static_cast<double>(y[j]) * y[j]))) << y[j];
      }
    }
  }
}

TEST(Distance, MatchesTheDefinition) {
  std::mt19937 rng(1);
  for (double norm : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
    for (int64_t m : {1, 3, 8, 17, 40}) {
      check<float>(2, 3, 5, m, norm, false, rng);
      check<double>(1, 4, 70, m, norm, false, rng);
    }
  }
  for (int64_t m : {1, 5, 33}) {
    check<float>(2, 130, 45, m, 2, true, rng);
    check<double>(1, 30, 31, m, 2, true, rng);
  }
}
TEST(Distance, NoFeaturesAndEqualRows) {
  std::vector<float> out(6, -1.0f), x(12, 1.5f), dx(6, -1.0f);
  pair_distances(DType::kFloat32, 1, 2, 3, 0, 2, false, nullptr, nullptr, out.data());
  EXPECT_EQ(out, std::vector<float>(6, 0.0f));
  const std::vector<float> grad(6, 1.0f);
  for (double norm : {1.0, 2.0, 3.0, kInf}) {
    pair_distances(DType::kFloat32, 1, 2, 3, 3, norm, false, x.data(), x.data(), out.data());
    EXPECT_EQ(out, std::vector<float>(6, 0.0f));
    pair_distances_backward(DType::kFloat32, 1, 2, 3, 3, norm, grad.data(), x.data(), x.data(), out.data(), dx.data());
    EXPECT_EQ(dx, std::vector<float>(6, 0.0f));
  }
}
TEST(Distance, SameBitsForAnyNumberOfThreads) {
  std::mt19937 rng(2);
  const auto x = numbers<float>(300 * 20, rng), y = numbers<float>(200 * 20, rng);
  for (bool by_product : {false, true}) {
    std::vector<float> one(300 * 200), two(300 * 200);
    const int threads = num_threads();
    set_num_threads(1);
    pair_distances(DType::kFloat32, 1, 300, 200, 20, 2, by_product, x.data(), y.data(), one.data());
    set_num_threads(3);
    pair_distances(DType::kFloat32, 1, 300, 200, 20, 2, by_product, x.data(), y.data(), two.data());
    set_num_threads(threads);
    EXPECT_EQ(one, two);
  }
}

}  // namespace
}  // namespace tessera::cpu
