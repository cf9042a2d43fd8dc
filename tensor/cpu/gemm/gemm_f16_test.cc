// Products of float16 against sums in float64, where each number is the sum of two bfloat16 on some machines.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu {
namespace {

KernelParam real(double x) {
  KernelParam p{};
  p.f = x;
  return p;
}

struct Matrix {
  std::vector<Half> storage;
  int64_t row, col;
  Matrix(int64_t rows, int64_t cols, int order) {
    const int64_t strides[3][2] = {{cols, 1}, {1, rows + 3}, {2 * cols + 5, 2}};
    row = strides[order][0];
    col = strides[order][1];
    storage.resize(static_cast<size_t>((rows - 1) * row + (cols - 1) * col + 1));
  }
  Half& at(int64_t i, int64_t j) { return storage[static_cast<size_t>(i * row + j * col)]; }
  MatrixRef ref() { return {storage.data(), row, col}; }
};

// Numbers of any exponent, denormal ones among them, and of all 11 bits.
Half any_size(std::mt19937& rng) {
  Half h(0.f);
  h.bits = static_cast<uint16_t>(rng() % 0x5000 | (rng() & 0x8000));
  return h;
}
Half whole(std::mt19937& rng) { return Half(static_cast<float>(static_cast<int>(rng() % 4095) - 2047)); }

void check(int64_t m, int64_t n, int64_t k, int order_a, int order_b, int order_c, float alpha, float beta,
           Half (*make)(std::mt19937&)) {
  std::mt19937 rng(static_cast<unsigned>(m * 10007 + n * 101 + k));
  Matrix a(m, k, order_a), b(k, n, order_b), c(m, n, order_c);
  for (Half& x : a.storage) x = make(rng);
  for (Half& x : b.storage) x = make(rng);
  for (Half& x : c.storage) x = beta == 0 ? Half(std::numeric_limits<float>::quiet_NaN()) : make(rng);
  Matrix before = c;
  gemm(DType::kFloat16, m, n, k, real(alpha), a.ref(), b.ref(), real(beta), c.ref());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double x = static_cast<double>(a.at(i, p)) * static_cast<double>(b.at(p, j));
        sum += x;
        size += std::abs(x);
      }
      double expected = alpha * sum;
      if (beta != 0) expected += beta * static_cast<double>(before.at(i, j));
      const double got = static_cast<float>(c.at(i, j));
      if (std::abs(expected) >= 65520) {
        ASSERT_TRUE(std::isinf(got)) << expected;
        continue;
      }
      // float sums in any order, then one rounding to 11 bits, or to a multiple of 2^-24.
      const double bound = std::abs(alpha) * size * 1e-6 + std::max(std::abs(expected) * 0.5 / 1024, 0x1p-25);
      if (std::abs(expected) + bound >= 65504) continue;
      ASSERT_LE(std::abs(got - expected), bound) << m << "x" << n << "x" << k << " at " << i << "," << j;
    }
}

TEST(Float16Product, SizesAroundTheBlocks) {
  for (int64_t m : {7, 8, 16, 17, 32, 33, 65})
    for (int64_t n : {8, 16, 31, 32, 33, 65})
      for (int64_t k : {31, 32, 33, 70, 290}) check(m, n, k, 0, 0, 0, 1, 0, any_size);
  check(101, 300, 1100, 0, 1, 0, 1, 0, any_size);  // more than a part of k
  check(700, 45, 90, 1, 0, 0, 1, 0, any_size);
  check(40, 700, 90, 0, 0, 1, 1, 0, any_size);
}

TEST(Float16Product, EveryOrderWithFactors) {
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 3; ++c) {
        check(37, 41, 70, a, b, c, 1, 0, any_size);
        check(37, 41, 70, a, b, c, 2, 0.5, any_size);
      }
}

// Sums of products of 22 bits that float holds exactly: no bit may be lost.
TEST(Float16Product, RestsCount) {
  std::mt19937 rng(5);
  const int64_t m = 40, n = 48, k = 32;
  Matrix a(m, k, 0), b(k, n, 0), c(m, n, 0);
  for (Half& x : a.storage) x = whole(rng);
  for (Half& x : b.storage) x = Half(0.f);
  for (int64_t j = 0; j < n; ++j) b.at(j % k, j) = whole(rng), b.at((j + 5) % k, j) = whole(rng);
  const float tiny = 0x1p-12f;
  gemm(DType::kFloat16, m, n, k, real(tiny), a.ref(), b.ref(), real(0), c.ref());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const auto term = [&](int64_t p) { return static_cast<float>(a.at(i, p)) * static_cast<float>(b.at(p, j)); };
      const float sum = term(j % k) + term((j + 5) % k);
      ASSERT_EQ(c.at(i, j).bits, Half(tiny * sum).bits) << i << "," << j;
    }
}

TEST(Float16Product, SpecialNumbers) {
  const int64_t n = 40;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float beta : {0.f, 1.f}) {
    Matrix a(n, n, 0), b(n, n, 0), c(n, n, 0);
    for (Half& x : a.storage) x = Half(1.f);
    for (Half& x : b.storage) x = Half(1.f);
    for (Half& x : c.storage) x = Half(2.f);
    a.at(0, 0) = Half(nan);
    a.at(1, 0) = Half(inf);
    a.at(2, 0) = Half(inf);
    a.at(2, 1) = Half(-inf);
    a.at(3, 0) = a.at(3, 1) = Half(60000.f);
    gemm(DType::kFloat16, n, n, n, real(1), a.ref(), b.ref(), real(beta), c.ref());
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_TRUE(std::isnan(static_cast<float>(c.at(0, j))));
      EXPECT_EQ(static_cast<float>(c.at(1, j)), inf);
      EXPECT_TRUE(std::isnan(static_cast<float>(c.at(2, j))));
      EXPECT_EQ(static_cast<float>(c.at(3, j)), inf);
      for (int64_t i = 4; i < n; ++i) EXPECT_EQ(static_cast<float>(c.at(i, j)), 40.f + 2 * beta);
    }
  }
}

TEST(Float16Product, SameBitsAtAnyThreadCount) {
  std::mt19937 rng(3);
  const int before = num_threads();
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{700, 600, 300}, {20, 3000, 1500}, {3000, 20, 1500}, {1000, 1, 700}, {100, 7, 700}}) {
    Matrix a(m, k, 0), b(k, n, 0);
    for (Half& x : a.storage) x = any_size(rng);
    for (Half& x : b.storage) x = any_size(rng);
    std::vector<Half> first;
    for (int threads : {1, 2, 5}) {
      set_num_threads(threads);
      Matrix c(m, n, 0);
      gemm(DType::kFloat16, m, n, k, real(1), a.ref(), b.ref(), real(0), c.ref());
      if (first.empty()) first = c.storage;
      ASSERT_EQ(std::memcmp(first.data(), c.storage.data(), first.size() * 2), 0) << threads;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
