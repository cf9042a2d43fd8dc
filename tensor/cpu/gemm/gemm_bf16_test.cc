// The products on dot-product instructions, at every level of this machine, against sums in float64 and int64.
#include "tensor/cpu/gemm/gemm_bf16.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_int8.h"

namespace tessera::cpu::internal {

// gemm_bf16.cc
bool gemm_bf16_batch(const Bf16Problem& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step,
                     PanelLevel level);

namespace {

enum class Order { kRows, kCols, kPaddedRows, kPaddedCols, kBothStrided, kReversed };
constexpr Order kOrders[] = {Order::kRows,       Order::kCols,        Order::kPaddedRows,
                             Order::kPaddedCols, Order::kBothStrided, Order::kReversed};

// Exactly the elements in reach, so that a sanitizer sees any access beyond.
template <class T>
struct Matrix {
  std::vector<T> storage;
  int64_t row, col, offset = 0;
  Matrix(int64_t rows, int64_t cols, Order order) {
    const int64_t padded[6][2] = {{cols, 1}, {1, rows}, {cols + 3, 1}, {1, rows + 5}, {2 * cols + 1, 2}, {-cols, -1}};
    row = padded[static_cast<int>(order)][0];
    col = padded[static_cast<int>(order)][1];
    if (order == Order::kReversed) offset = rows * cols - 1;
    storage.resize(static_cast<size_t>(1 + (rows - 1) * std::abs(row) + (cols - 1) * std::abs(col)));
  }
  template <class F>
  void fill(F&& f) {
    for (T& x : storage) x = f();
  }
  T& at(int64_t i, int64_t j) { return storage[static_cast<size_t>(offset + i * row + j * col)]; }
  MatrixRef ref() { return {storage.data() + offset, row, col}; }
};

struct Case {
  int64_t m, n, k;
  Order a = Order::kRows, b = Order::kRows, c = Order::kRows;
  float alpha = 1, beta = 0;
};

class Level : public testing::TestWithParam<PanelLevel> {
 protected:
  bool has_bf16() const { return GetParam() <= bf16_panel_level(); }
  bool has_int8() const { return GetParam() <= int8_panel_level(); }
};

template <class C>
void check_bf16(PanelLevel level, const Case& t) {
  std::mt19937 rng(static_cast<unsigned>(t.m * 10007 + t.n * 101 + t.k));
  std::uniform_real_distribution<float> real(-1, 1);
  Matrix<BFloat16> a(t.m, t.k, t.a), b(t.k, t.n, t.b);
  Matrix<C> c(t.m, t.n, t.c);
  a.fill([&] { return real(rng); });
  b.fill([&] { return real(rng); });
  c.fill([&] { return t.beta == 0 ? std::numeric_limits<float>::quiet_NaN() : real(rng); });
  Matrix<C> before = c;
  ASSERT_TRUE(gemm_bf16({t.m, t.n, t.k, t.alpha, t.beta, a.ref(), b.ref(), c.ref(), std::is_same_v<C, float>}, level));
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < t.k; ++p) {
        const double x = static_cast<double>(a.at(i, p)) * static_cast<double>(b.at(p, j));
        sum += x;
        size += std::abs(x);
      }
      double expected = static_cast<double>(t.alpha) * sum;
      if (t.beta != 0) expected += static_cast<double>(t.beta) * static_cast<double>(before.at(i, j));
      // float sums of k terms in any order of blocks, then one rounding.
      const double bound = std::abs(static_cast<double>(t.alpha)) * size * 1e-6 +
                           std::abs(expected) * (std::is_same_v<C, float> ? 1e-6 : 0.5 / 128) + 1e-30;
      ASSERT_LE(std::abs(static_cast<double>(c.at(i, j)) - expected), bound)
          << t.m << "x" << t.n << "x" << t.k << " at " << i << "," << j;
    }
  // Memory between the elements of C is left alone.
  if (t.c == Order::kRows) return;
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) c.at(i, j) = before.at(i, j);
  ASSERT_EQ(std::memcmp(c.storage.data(), before.storage.data(), c.storage.size() * sizeof(C)), 0);
}

TEST_P(Level, Bf16OfAllSmallSizes) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  for (int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 65})
    for (int64_t n : {1, 2, 15, 16, 17, 32, 33, 65})
      for (int64_t k : {1, 2, 3, 31, 32, 33, 70}) check_bf16<BFloat16>(GetParam(), {m, n, k});
}

TEST_P(Level, Bf16InEveryOrder) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  for (Order a : kOrders)
    for (Order b : kOrders)
      for (Order c : kOrders) {
        check_bf16<BFloat16>(GetParam(), {33, 37, 41, a, b, c, 2, 0.5});
        check_bf16<float>(GetParam(), {17, 50, 34, a, b, c});
      }
}

TEST_P(Level, Bf16BeyondTheBlocks) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  check_bf16<BFloat16>(GetParam(), {600, 45, 90});
  check_bf16<BFloat16>(GetParam(), {40, 600, 290});
  check_bf16<BFloat16>(GetParam(), {530, 530, 33, Order::kCols, Order::kCols});
  check_bf16<BFloat16>(GetParam(), {34, 35, 2100});  // more than two blocks of k
  check_bf16<BFloat16>(GetParam(),
                       {70, 35, 4200, Order::kRows, Order::kCols, Order::kCols, 0.5, 2});  // more than a part of k
  check_bf16<float>(GetParam(), {70, 600, 2100, Order::kCols, Order::kRows});
  // C is written and A packed among the products: with rests of rows, columns and k, and more than one block of k.
  check_bf16<BFloat16>(GetParam(), {101, 300, 729, Order::kPaddedRows, Order::kRows, Order::kPaddedRows, 2, 0.5});
  check_bf16<BFloat16>(GetParam(), {101, 300, 729, Order::kCols, Order::kCols});
  check_bf16<float>(GetParam(), {65, 257, 257});
  check_bf16<BFloat16>(GetParam(), {2080, 1056, 7});  // C streams past the caches
  check_bf16<float>(GetParam(), {1050, 1056, 7});
}

// Products of a batch are those of their matrices one by one.
TEST_P(Level, Bf16Batches) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> real(-1, 1);
  const int64_t count = 600;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4, 4, 4},
                                {5, 3, 7},
                                {1, 6, 9},
                                {16, 16, 16},
                                {32, 32, 32},
                                {33, 20, 70},
                                {1, 40, 300},
                                {40, 1, 300},
                                {20, 260, 260}})
    for (Order order : {Order::kRows, Order::kCols, Order::kPaddedRows})
      for (float beta : {0.f, 0.5f}) {
        const int64_t batch = m * n * k > 10000 ? 7 : count;
        Matrix<BFloat16> a(m * batch, k, order), b(k * batch, n, order), c(m * batch, n, order);
        for (auto* x : {&a, &b, &c}) x->fill([&] { return real(rng); });
        Matrix<BFloat16> expected = c;
        const auto part = [](Matrix<BFloat16>& x, int64_t row) { return MatrixRef{&x.at(row, 0), x.row, x.col}; };
        ASSERT_TRUE(gemm_bf16_batch({m, n, k, 1, beta, a.ref(), b.ref(), c.ref()}, batch, m * a.row, k * b.row,
                                    m * c.row, GetParam()));
        for (int64_t i = 0; i < batch; ++i)
          ASSERT_TRUE(gemm_bf16({m, n, k, 1, beta, part(a, i * m), part(b, i * k), part(expected, i * m)}, GetParam()));
        ASSERT_EQ(std::memcmp(c.storage.data(), expected.storage.data(), c.storage.size() * 2), 0)
            << m << "x" << n << "x" << k << " order " << static_cast<int>(order) << " beta " << beta;
      }
}

// Tiny products round to the nearest, to even ones between two; NaN and infinities stay.
TEST(Bf16Tiny, Rounding) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t n = 8;
  std::vector<BFloat16> a(n * n, 0.f), b(n * n, 0.f), c(n * n, nan);
  const float firsts[n] = {1.f, 1.f, 3.f, nan, inf, -0.f, 3e38f, 1.f},
              seconds[n] = {0x1p-8f, 0x1.8p-8f, -0x1p-7f, 1.f, 1.f, 0.f, 3e38f, -0x1p-9f};
  for (int64_t i = 0; i < n; ++i) {
    a[i * n] = firsts[i];
    a[i * n + 1] = seconds[i];
    b[i] = b[n + i] = 1.f;
  }
  ASSERT_TRUE(gemm_bf16({n, n, n, 1, 0, {a.data(), n, 1}, {b.data(), n, 1}, {c.data(), n, 1}}, PanelLevel::kNone));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const BFloat16 expected(firsts[i] + seconds[i]);
      if (std::isnan(static_cast<float>(expected)))
        ASSERT_TRUE(std::isnan(static_cast<float>(c[i * n + j])));
      else
        ASSERT_EQ(static_cast<float>(c[i * n + j]), static_cast<float>(expected)) << i;
    }
}

TEST_P(Level, Bf16SpecialNumbers) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  const int64_t n = 40;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<BFloat16> a(n * n, 1.f), b(n * n, 1.f), c(n * n, nan);
  a[0] = nan;
  a[n] = inf;
  a[2 * n] = inf;
  a[2 * n + 1] = -inf;
  a[3 * n] = 3e38f;
  a[3 * n + 1] = 3e38f;
  ASSERT_TRUE(gemm_bf16({n, n, n, 1, 0, {a.data(), n, 1}, {b.data(), n, 1}, {c.data(), n, 1}}, GetParam()));
  for (int64_t j = 0; j < n; ++j) {
    EXPECT_TRUE(std::isnan(static_cast<float>(c[j])));
    EXPECT_EQ(c[n + j], inf);
    EXPECT_TRUE(std::isnan(static_cast<float>(c[2 * n + j])));
    EXPECT_EQ(c[3 * n + j], inf);
    for (int64_t i = 4; i < n; ++i) EXPECT_EQ(c[i * n + j], static_cast<float>(n));
  }
}

TEST_P(Level, Bf16SameBitsAtAnyThreadCount) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> real(-1, 1);
  const int before = num_threads();
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{700, 600, 300}, {1, 5000, 700}, {3000, 1, 700}, {20, 3000, 2500}, {3000, 20, 2500}}) {
    std::vector<BFloat16> a(m * k), b(k * n), first;
    for (auto& x : a) x = real(rng);
    for (auto& x : b) x = real(rng);
    for (int threads : {1, 2, 5}) {
      set_num_threads(threads);
      std::vector<BFloat16> c(m * n);
      ASSERT_TRUE(gemm_bf16({m, n, k, 1, 0, {a.data(), k, 1}, {b.data(), n, 1}, {c.data(), n, 1}}, GetParam()));
      if (first.empty()) first = c;
      ASSERT_EQ(std::memcmp(first.data(), c.data(), c.size() * 2), 0) << threads;
    }
  }
  set_num_threads(before);
}

// The blocks as other kernels use them: packed panels, sums that go on.
TEST_P(Level, Bf16Blocks) {
  if (!has_bf16()) GTEST_SKIP() << "this machine has no such bfloat16 products";
  constexpr int64_t kRow = 40;
  std::vector<BFloat16> a(29 * 70), b(70 * 23);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5);
  alignas(64) char pa[3 * kPanelStepBytes], pb[3 * kPanelStepBytes];
  pack_panel_a(2, a.data(), 70, 1, 29, 70, 0, pa);
  pack_panel_b(2, b.data(), 1, 23, 23, 70, pb);
  std::vector<float> c(32 * kRow, 1000.f);
  const TileScope outer(GetParam()), inner(GetParam());
  const PanelBlock block = bf16_panel_block(GetParam());
  block(3, pa, pb, 29, 23, c.data(), kRow, false);
  block(2, pa, pb, 29, 23, c.data(), kRow, true);
  for (int64_t i = 0; i < 29; ++i)
    for (int64_t j = 0; j < 23; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < 70; ++p) sum += a[i * 70 + p] * b[p * 23 + j] * (p < 64 ? 2 : 1);
      ASSERT_EQ(c[i * kRow + j], sum) << i << "," << j;
    }
  for (int64_t i = 0; i < 32; ++i) ASSERT_EQ(c[i * kRow + 32], 1000.f);
}

template <class A>
void check_int32(PanelLevel level, const Case& t) {
  std::mt19937 rng(static_cast<unsigned>(t.m * 10007 + t.n * 101 + t.k));
  Matrix<A> a(t.m, t.k, t.a);
  Matrix<int8_t> b(t.k, t.n, t.b);
  Matrix<int32_t> c(t.m, t.n, t.c);
  a.fill([&] { return static_cast<A>(rng()); });
  b.fill([&] { return static_cast<int8_t>(rng()); });
  ASSERT_TRUE(gemm_int8({t.m, t.n, t.k, 1, 0, a.ref(), b.ref(), c.ref(), true, std::is_same_v<A, uint8_t>}, level));
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) {
      int64_t sum = 0;
      for (int64_t p = 0; p < t.k; ++p) sum += static_cast<int64_t>(a.at(i, p)) * b.at(p, j);
      ASSERT_EQ(c.at(i, j), sum) << t.m << "x" << t.n << "x" << t.k << " at " << i << "," << j;
    }
}

TEST_P(Level, Int32OfBytes) {
  if (!has_int8() || GetParam() == PanelLevel::kNone) GTEST_SKIP() << "this machine has no such products of bytes";
  for (int64_t m : {1, 2, 3, 7, 8, 9, 33, 70})
    for (int64_t n : {1, 15, 16, 33, 70})
      for (int64_t k : {1, 3, 4, 5, 63, 64, 65, 140}) {
        check_int32<int8_t>(GetParam(), {m, n, k});
        check_int32<uint8_t>(GetParam(), {m, n, k});
        check_int32<uint8_t>(GetParam(), {m, n, k, Order::kRows, Order::kCols});  // few rows: without packing
      }
  for (Order a : kOrders)
    for (Order b : kOrders)
      for (Order c : kOrders) {
        check_int32<int8_t>(GetParam(), {34, 37, 71, a, b, c});
        check_int32<uint8_t>(GetParam(), {34, 37, 71, a, b, c});
      }
  check_int32<int8_t>(GetParam(), {70, 600, 4500});
  check_int32<int8_t>(GetParam(), {600, 70, 1030, Order::kCols, Order::kCols});
  check_int32<int8_t>(GetParam(), {1050, 1056, 5});  // C streams past the caches
}

// The largest sums there are.
TEST_P(Level, Int32ExtremeBytes) {
  if (!has_int8() || GetParam() == PanelLevel::kNone) GTEST_SKIP() << "this machine has no such products of bytes";
  const int64_t k = 3000;
  std::vector<int8_t> a(2 * k, -128), b(k * 2, -128);
  std::vector<int32_t> c(4);
  for (int64_t p = 0; p < k; ++p) {
    a[k + p] = 127;
    b[p * 2 + 1] = 127;
  }
  ASSERT_TRUE(gemm_int8({2, 2, k, 1, 0, {a.data(), k, 1}, {b.data(), 2, 1}, {c.data(), 2, 1}, true}, GetParam()));
  EXPECT_EQ(c, (std::vector<int32_t>{16384 * 3000, -16256 * 3000, -16256 * 3000, 16129 * 3000}));
}

INSTANTIATE_TEST_SUITE_P(Gemm, Level, testing::Values(PanelLevel::kAvx512, PanelLevel::kAmx),
                         [](const auto& info) { return info.param == PanelLevel::kAmx ? "Amx" : "Avx512"; });

TEST(PanelLevel, AmxIsAboveAvx512) {
  const char* wanted = std::getenv("TESSERA_SIMD");
  if (!wanted || std::strcmp(wanted, "amx") == 0) GTEST_SKIP() << "the level is not lowered";
  EXPECT_LT(bf16_panel_level(), PanelLevel::kAmx);
  EXPECT_LT(int8_panel_level(), PanelLevel::kAmx);
}

// One row or column needs no special instructions.
TEST(Bf16Vectors, InEveryOrder) {
  for (Order a : kOrders)
    for (Order b : {Order::kRows, Order::kCols, Order::kPaddedRows, Order::kPaddedCols})
      for (Order c : kOrders)
        for (int64_t k : {1, 7, 64, 700}) {
          check_bf16<BFloat16>(PanelLevel::kNone, {1, 75, k, a, b, c, 1, k == 7 ? 0.5f : 0.f});
          check_bf16<float>(PanelLevel::kNone, {75, 1, k, b, a, c, 2, 0});
        }
  check_bf16<BFloat16>(PanelLevel::kNone, {1, 5000, 300});
  check_bf16<BFloat16>(PanelLevel::kNone, {5000, 1, 301});
}

}  // namespace
}  // namespace tessera::cpu::internal
