#include "tensor/cpu/gemm/gemm.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

template <class T>
struct Traits {
  static constexpr bool kComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>> ||
                                   std::is_same_v<T, ComplexHalf>;
  static constexpr bool kFloat =
      std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
  static constexpr bool kInt = !kComplex && !kFloat;
  // Reference sums: exact modulo 2^64, or in long double.
  using Wide = std::conditional_t<kComplex, std::complex<double>, std::conditional_t<kFloat, long double, uint64_t>>;
};
// Without the library's care for infinities, which takes most of the time of a reference loop.
uint64_t times(uint64_t x, uint64_t y) { return x * y; }
long double times(long double x, long double y) { return x * y; }
std::complex<double> times(std::complex<double> x, std::complex<double> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}
template <class T>
typename Traits<T>::Wide widen(T x) {
  if constexpr (std::is_same_v<T, ComplexHalf>)
    return static_cast<std::complex<double>>(static_cast<std::complex<float>>(x));
  else
    return static_cast<typename Traits<T>::Wide>(x);
}
// Relative error of one operation in the type of the result.
template <class T>
double epsilon() {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, ComplexHalf>)
    return 1e-3;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 8e-3;
  else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>>)
    return 1e-6;
  else
    return 4e-15;
}

template <class T>
T random_value(std::mt19937& rng) {
  const auto real = [&] { return std::uniform_real_distribution<double>(-1, 1)(rng); };
  if constexpr (std::is_same_v<T, bool>)
    return rng() % 4 == 0;
  else if constexpr (Traits<T>::kInt)
    return static_cast<T>(rng() * 0x9e3779b97f4a7c15ull >> 7);
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return ComplexHalf(std::complex<float>(real(), real()));
  else if constexpr (Traits<T>::kComplex)
    return T(real(), real());
  else
    return static_cast<T>(static_cast<float>(real()));
}

enum class Order { kRows, kCols, kPaddedRows, kPaddedCols, kBothStrided, kReversed };

template <class T>
struct Matrix {
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> storage;
  int64_t row, col, offset = 0;
  Matrix(int64_t rows, int64_t cols, Order order, std::mt19937& rng) {
    switch (order) {
      case Order::kRows:
        row = cols;
        col = 1;
        break;
      case Order::kCols:
        row = 1;
        col = rows;
        break;
      case Order::kPaddedRows:
        row = cols + 3;
        col = 1;
        break;
      case Order::kPaddedCols:
        row = 1;
        col = rows + 5;
        break;
      case Order::kBothStrided:
        row = 2 * cols + 1;
        col = 2;
        break;
      case Order::kReversed:
        row = -cols;
        col = -1;
        offset = rows * cols > 0 ? rows * cols - 1 : 0;
        break;
    }
    // Exactly the elements in reach, so that a sanitizer sees any access beyond.
    int64_t size = rows > 0 && cols > 0 ? 1 + (rows - 1) * std::abs(row) + (cols - 1) * std::abs(col) : 0;
    storage.resize(size);
    for (auto& x : storage) x = random_value<T>(rng);
  }
  T at(int64_t i, int64_t j) const { return static_cast<T>(storage[offset + i * row + j * col]); }
  MatrixRef ref() { return {storage.data() + offset, row, col}; }
};

KernelParam param(DType t, double re, double im = 0) {
  KernelParam p;
  if (is_complex(t)) {
    p.c[0] = re;
    p.c[1] = im;
  } else if (is_floating_point(t))
    p.f = re;
  else
    p.i = static_cast<int64_t>(re);
  return p;
}

struct Case {
  int64_t m, n, k;
  Order a = Order::kRows, b = Order::kRows, c = Order::kRows;
  double alpha = 1, beta = 0, alpha_im = 0, beta_im = 0;
  bool conj_a = false, conj_b = false;
};

template <class T>
typename Traits<T>::Wide maybe_conj(typename Traits<T>::Wide x, bool conj) {
  if constexpr (Traits<T>::kComplex)
    return conj ? std::conj(x) : x;
  else
    return x;
}
template <class T>
typename Traits<T>::Wide scalar(double re, double im) {
  if constexpr (Traits<T>::kComplex)
    return {re, im};
  else if constexpr (Traits<T>::kInt)
    return static_cast<uint64_t>(static_cast<int64_t>(re));
  else
    return re;
}

template <class T>
void check(const Case& t) {
  constexpr DType kType = DTypeOf<T>::value;
  using Wide = typename Traits<T>::Wide;
  std::mt19937 rng(t.m * 10007 + t.n * 101 + t.k);
  Matrix<T> a(t.m, t.k, t.a, rng), b(t.k, t.n, t.b, rng), c(t.m, t.n, t.c, rng);
  if (t.beta == 0 && t.beta_im == 0 && !Traits<T>::kInt && !Traits<T>::kComplex)
    for (auto& x : c.storage) x = static_cast<T>(std::numeric_limits<float>::quiet_NaN());  // must not matter
  const Matrix<T> before = c;
  gemm(kType, t.m, t.n, t.k, param(kType, t.alpha, t.alpha_im), a.ref(), b.ref(), param(kType, t.beta, t.beta_im),
       c.ref(), t.conj_a, t.conj_b);
  const Wide alpha = scalar<T>(t.alpha, t.alpha_im), beta = scalar<T>(t.beta, t.beta_im);
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) {
      Wide sum{};
      double size = 0;
      for (int64_t p = 0; p < t.k; ++p) {
        const Wide x = maybe_conj<T>(widen(a.at(i, p)), t.conj_a), y = maybe_conj<T>(widen(b.at(p, j)), t.conj_b);
        sum += times(x, y);
        if constexpr (Traits<T>::kComplex)
          size += (std::abs(x.real()) + std::abs(x.imag())) * (std::abs(y.real()) + std::abs(y.imag()));
        else if constexpr (Traits<T>::kFloat)
          size += std::abs(x * y);
      }
      Wide expected = alpha * sum;
      if (beta != Wide{}) expected += beta * widen(before.at(i, j));
      if constexpr (std::is_same_v<T, bool>) expected = (alpha && sum) || (beta && before.at(i, j));
      const std::string where =
          str_cat(kType == DType::kBool ? "bool" : "", " m=", t.m, " n=", t.n, " k=", t.k, " at ", i, ",", j);
      if constexpr (std::is_same_v<T, bool>) {
        ASSERT_EQ(c.at(i, j), expected != 0) << where;
      } else if constexpr (Traits<T>::kInt) {
        ASSERT_EQ(c.at(i, j), static_cast<T>(expected)) << where;
      } else {
        const double scale = std::abs(alpha) * size * 1e-6 * (sizeof(T) == 8 + 8 * Traits<T>::kComplex ? 1e-8 : 1) +
                             std::abs(expected) * epsilon<T>() + (epsilon<T>() > 1e-4 ? 1e-4 : 1e-30);
        ASSERT_LE(std::abs(widen(c.at(i, j)) - expected), scale) << where;
      }
    }
  // Memory between the elements of C is left alone.
  if (t.c == Order::kPaddedRows || t.c == Order::kBothStrided) {
    std::vector<bool> in_c(c.storage.size(), false);
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) in_c[i * c.row + j * c.col] = true;
    for (size_t i = 0; i < in_c.size(); ++i)
      if (!in_c[i]) { ASSERT_EQ(std::memcmp(&c.storage[i], &before.storage[i], sizeof(c.storage[i])), 0); }
  }
}

// Types that share their code with another one are tested less.
template <class T>
constexpr bool kOwnCode =
    std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, bool>;

constexpr Order kOrders[] = {Order::kRows,       Order::kCols,        Order::kPaddedRows,
                             Order::kPaddedCols, Order::kBothStrided, Order::kReversed};

template <class T>
class GemmTest : public testing::Test {};
using AllTypes = testing::Types<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, Half,
                                BFloat16, float, double, ComplexHalf, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(GemmTest, AllTypes);

TYPED_TEST(GemmTest, SizesUpToSeventy) {
  for (int64_t m : {0, 1, 2, 3, 5, 6, 8, 13, 14, 15, 33, 70})
    for (int64_t n : {0, 1, 2, 3, 7, 8, 16, 17, 32, 33, 70})
      for (int64_t k : {0, 1, 2, 17, 70}) check<TypeParam>({m, n, k});
}

TYPED_TEST(GemmTest, OddSizesBeyondTheBlocks) {
  check<TypeParam>({171, 37, 264});
  check<TypeParam>({17, 290, 261});
  check<TypeParam>({7, 300, 517});
  check<TypeParam>({301, 3, 515});
  check<TypeParam>({3, 70, 600, Order::kRows, Order::kCols});
}

TYPED_TEST(GemmTest, EveryOrderOfEveryOperand) {
  for (Order a : kOrders)
    for (Order b : kOrders)
      for (Order c : kOrders) {
        check<TypeParam>({5, 19, 12, a, b, c, 1, 1});
        if (kOwnCode<TypeParam> && (c == Order::kRows || c == Order::kCols || c == Order::kBothStrided))
          check<TypeParam>({33, 67, 34, a, b, c, 2, 0});
      }
}

TYPED_TEST(GemmTest, VectorsInEveryOrder) {
  for (Order a : kOrders)
    for (Order b : kOrders)
      for (Order c : {Order::kRows, Order::kCols, Order::kBothStrided}) {
        check<TypeParam>({1, 75, 83, a, b, c});
        check<TypeParam>({75, 1, 83, a, b, c, 3, 2});
        check<TypeParam>({1, 1, 83, a, b, c, 3, 2});
        check<TypeParam>({2, 1100, 3, a, b, c});
      }
}

TYPED_TEST(GemmTest, AlphaAndBeta) {
  for (double alpha : {0., 1., -3.})
    for (double beta : {0., 1., -2.})
      for (int64_t k : {0, 7, 260})
        check<TypeParam>({17, 35, k, Order::kRows, Order::kCols, Order::kRows, alpha, beta});
}

template <class T>
class ComplexGemmTest : public testing::Test {};
using ComplexTypes = testing::Types<ComplexHalf, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(ComplexGemmTest, ComplexTypes);

TYPED_TEST(ComplexGemmTest, ConjugatesAndComplexFactors) {
  for (bool conj_a : {false, true})
    for (bool conj_b : {false, true})
      for (Order c : {Order::kRows, Order::kCols, Order::kBothStrided}) {
        check<TypeParam>({9, 20, 31, Order::kRows, Order::kCols, c, 1, 0, 0, 0, conj_a, conj_b});
        check<TypeParam>({20, 35, 270, Order::kCols, Order::kRows, c, 2, -1, 0.5, 3, conj_a, conj_b});
        check<TypeParam>({40, 1, 30, Order::kCols, Order::kRows, c, 1, 1, 0, 0, conj_a, conj_b});
      }
}

TEST(Gemm, LongSums) {
  check<float>({10, 64, 20000});
  check<float>({20, 40, 9000, Order::kCols, Order::kRows, Order::kPaddedRows, 2, 1});
  check<double>({20, 40, 9000, Order::kRows, Order::kCols, Order::kCols, 2, 1});
  check<float>({1, 5, 100000});
}

TEST(Gemm, FewRowsAgainstContiguousColumns) {
  for (Order c : {Order::kRows, Order::kCols, Order::kBothStrided}) {
    check<float>({20, 500, 520, Order::kRows, Order::kCols, c, 2, 1});
    check<float>({100, 301, 263, Order::kPaddedRows, Order::kPaddedCols, c});
    check<double>({129, 140, 300, Order::kRows, Order::kCols, c});
  }
}

// Beyond one block of A, one part of k, one piece of columns or rows; rows a multiple of 4 KB apart; columns that end
// inside a panel.
TEST(Gemm, EdgesOfBlocks) {
  for (Order a : {Order::kRows, Order::kCols})
    for (Order b : {Order::kRows, Order::kCols}) {
      check<float>({573, 97, 200, a, b});
      check<float>({33, 65, 1024, a, b, Order::kRows, 1.5, 0.5});
      check<float>({15, 20, 257, a, b});
      check<float>({300, 300, 193, a, b, Order::kPaddedRows, 1, 1});
      check<double>({571, 50, 385, a, b, Order::kRows, 1, 1});
      check<double>({29, 31, 512, a, b});
      check<std::complex<float>>({150, 70, 230, a, b});
      check<std::complex<double>>({150, 71, 97, a, b, Order::kRows, 1, 1, 0, 0, true, false});
      check<std::complex<float>>({300, 330, 101, a, b, Order::kRows, 1, 1, 0, 0, false, true});
      check<Half>({150, 300, 230, a, b});
    }
  check<float>({1200, 33, 64});
  check<float>({1500, 1030, 65});
}

// The wanted part has the bits that it has in the whole product, and little of the rest is touched.
template <class T>
void check_part(int64_t n, int64_t k, Order order, GemmPart part, double beta) {
  constexpr DType kType = DTypeOf<T>::value;
  std::mt19937 rng(n + k);
  Matrix<T> a(n, k, Order::kRows, rng), b(k, n, Order::kCols, rng), c(n, n, order, rng);
  const Matrix<T> before = c;
  Matrix<T> whole = c;
  const auto multiply = [&](Matrix<T>& to, GemmPart what) {
    gemm_wide(kType, n, n, k, param(kType, -1), a.ref(), b.ref(), param(kType, beta), to.ref(), false,
              Traits<T>::kComplex, what);
  };
  multiply(whole, GemmPart::kAll);
  multiply(c, part);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const bool wanted = part == GemmPart::kLower ? j <= i : j >= i;
      if (!wanted && std::abs(i - j) <= 64) continue;
      kept += wanted ? 0 : 1;
      ASSERT_EQ(c.at(i, j), (wanted ? whole : before).at(i, j)) << n << " at " << i << "," << j;
    }
  ASSERT_EQ(kept > 0, n > 65);
}
TEST(Gemm, PartsOfC) {
  for (GemmPart part : {GemmPart::kLower, GemmPart::kUpper})
    for (Order order : {Order::kRows, Order::kPaddedCols})
      for (int64_t n : {5, 90, 700}) {
        check_part<float>(n, 70, order, part, 1);
        check_part<double>(n, 33, order, part, 0);
        check_part<std::complex<float>>(n, 30, order, part, 1);
        check_part<std::complex<double>>(n, 9, order, part, 0.5);
      }
}

TEST(Gemm, OneRow) {
  for (int64_t n : {5, 300, 4097, 20000}) {
    check<float>({1, n, 130});
    check<float>({1, n, 3, Order::kCols, Order::kPaddedRows, Order::kBothStrided, 2, 1});
    check<double>({1, n, 71});
  }
  check<float>({1, 100, 9001});
  check<float>({700, 1, 600, Order::kCols});
}

// An expanded gradient: all elements, all rows or all columns are one.
TEST(Gemm, StridesOfZero) {
  const int64_t n = 70, k = 300;
  std::vector<float> few(k + n, 0.f), other(k * n), c(n * n);
  std::mt19937 rng(3);
  for (auto& x : few) x = random_value<float>(rng);
  for (auto& x : other) x = random_value<float>(rng);
  for (int64_t row : {0, 1})
    for (int64_t col : {0, 1}) {
      if (row && col) continue;
      for (bool left : {false, true}) {
        const MatrixRef small{few.data(), row, col}, full{other.data(), left ? n : k, 1};
        const MatrixRef a = left ? small : full, b = left ? full : small;
        gemm(DType::kFloat32, n, n, k, param(DType::kFloat32, 1), a, b, param(DType::kFloat32, 0), {c.data(), n, 1});
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p)
              sum += static_cast<double>(static_cast<float*>(a.data)[i * a.row_stride + p * a.col_stride]) *
                     static_cast<float*>(b.data)[p * b.row_stride + j * b.col_stride];
            ASSERT_NEAR(c[i * n + j], sum, 1e-3) << row << col << left;
          }
      }
    }
}

TEST(Gemm, LargerThanTheSuperBlocks) {
  check<float>({2100, 40, 20});
  check<float>({20, 4200, 20});
  check<double>({2100, 33, 20, Order::kCols, Order::kCols});
}

// C is rounded tile by tile: sums in one part or several, bands of columns, places of C apart, what was there before.
template <class T>
void check_rounding() {
  check<T>({600, 700, 300});
  check<T>({37, 1500, 520, Order::kCols, Order::kCols, Order::kRows, -3, 1});
  check<T>({130, 70, 256, Order::kRows, Order::kCols, Order::kPaddedRows, 1, 1});
  check<T>({130, 71, 257, Order::kCols, Order::kRows, Order::kPaddedRows, 2, -2});
  check<T>({64, 90, 300, Order::kRows, Order::kRows, Order::kCols, 1, 1});
}
TEST(Gemm, ReducedFloatsByTiles) {
  check_rounding<Half>();
  check_rounding<BFloat16>();
}

// float16 sums must not lose small terms: accumulation is in float32 over all of k.
TEST(Gemm, ReducedFloatsRoundOnce) {
  const int64_t k = 5000;
  std::vector<Half> a(k, Half(1.f)), b(k, Half(0.5f));
  Half c;
  gemm(DType::kFloat16, 1, 1, k, param(DType::kFloat16, 1), {a.data(), k, 1}, {b.data(), 1, 1},
       param(DType::kFloat16, 0), {&c, 1, 1});
  EXPECT_EQ(static_cast<float>(c), 2500.f);
  std::vector<BFloat16> x(k, BFloat16(1.f)), y(k, BFloat16(1.f));
  BFloat16 z;
  dot(DType::kBFloat16, k, x.data(), 1, y.data(), 1, false, &z);
  EXPECT_EQ(static_cast<float>(z), static_cast<float>(BFloat16(5000.f)));
}

TEST(Gemm, NanInAAndBPropagates) {
  for (int64_t n : {1, 8, 100}) {
    std::vector<float> a(n * n, 1.f), b(n * n, 1.f), c(n * n);
    a[0] = std::numeric_limits<float>::quiet_NaN();
    gemm(DType::kFloat32, n, n, n, param(DType::kFloat32, 1), {a.data(), n, 1}, {b.data(), n, 1},
         param(DType::kFloat32, 0), {c.data(), n, 1});
    for (int64_t j = 0; j < n; ++j) EXPECT_TRUE(std::isnan(c[j]));
    for (int64_t j = n; j < n * n; ++j) EXPECT_EQ(c[j], static_cast<float>(n));
  }
}

template <class T>
void same_bits_at_any_thread_count(const Case& t) {
  constexpr DType kType = DTypeOf<T>::value;
  std::mt19937 rng(5);
  Matrix<T> a(t.m, t.k, t.a, rng), b(t.k, t.n, t.b, rng), c(t.m, t.n, t.c, rng);
  const int before = num_threads();
  std::vector<T> first;
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    Matrix<T> out = c;
    gemm(kType, t.m, t.n, t.k, param(kType, 1.5), a.ref(), b.ref(), param(kType, 0.25), out.ref());
    if (first.empty()) first = out.storage;
    ASSERT_EQ(std::memcmp(first.data(), out.storage.data(), first.size() * sizeof(T)), 0) << threads;
  }
  set_num_threads(before);
}

TEST(Gemm, SameBitsAtAnyThreadCount) {
  for (Order b : {Order::kRows, Order::kCols}) {
    for (const Case& t : {Case{400, 500, 600, Order::kRows, b}, Case{1, 5000, 700, Order::kRows, b},
                          Case{4, 3000, 700, Order::kRows, b}, Case{8, 3000, 300, Order::kRows, b},
                          Case{30, 50, 20000, Order::kRows, b}, Case{100, 2000, 600, Order::kRows, b},
                          Case{128, 128, 128, Order::kRows, b}, Case{3000, 100, 60, Order::kRows, b},
                          Case{64, 64, 4096, Order::kRows, b}, Case{2000, 50, 64, Order::kRows, b},
                          Case{1, 20000, 100, Order::kRows, b}, Case{1301, 333, 130, Order::kCols, b},
                          Case{2500, 40, 300, Order::kRows, b}}) {
      same_bits_at_any_thread_count<float>(t);
      same_bits_at_any_thread_count<double>(t);
    }
    same_bits_at_any_thread_count<std::complex<float>>({200, 300, 300, Order::kRows, b});
    same_bits_at_any_thread_count<std::complex<double>>({461, 100, 210, Order::kCols, b});
    same_bits_at_any_thread_count<Half>({200, 300, 300, Order::kRows, b});
    same_bits_at_any_thread_count<Half>({461, 300, 210, Order::kCols, b});
    same_bits_at_any_thread_count<BFloat16>({1300, 1100, 520, Order::kRows, b});
    same_bits_at_any_thread_count<int32_t>({200, 600, 300, Order::kRows, b});
  }
}

template <class T>
void check_batched(int64_t batch, int64_t m, int64_t n, int64_t k, bool same_a, bool same_b, bool transposed_b = false,
                   double alpha = 1, double beta = 1) {
  constexpr DType kType = DTypeOf<T>::value;
  std::mt19937 rng(9);
  Matrix<T> a(batch * m, k, Order::kRows, rng), b(batch * k, n, Order::kRows, rng), c(batch * m, n, Order::kRows, rng);
  Matrix<T> expected = c;
  const int64_t sa = same_a ? 0 : m * k, sb = same_b ? 0 : k * n;
  const int64_t b_row = transposed_b ? 1 : n, b_col = transposed_b ? k : 1;
  gemm_batched(kType, batch, m, n, k, param(kType, alpha), a.ref(), sa, {b.storage.data(), b_row, b_col}, sb,
               param(kType, beta), c.ref(), m * n);
  for (int64_t i = 0; i < batch; ++i)
    gemm(kType, m, n, k, param(kType, alpha), {a.storage.data() + i * sa, k, 1},
         {b.storage.data() + i * sb, b_row, b_col}, param(kType, beta), {expected.storage.data() + i * m * n, n, 1});
  for (size_t i = 0; i < c.storage.size(); ++i)
    ASSERT_LE(std::abs(widen(c.storage[i]) - widen(expected.storage[i])), 1e-4) << i;
}

TEST(Gemm, Batched) {
  for (bool same_a : {false, true})
    for (bool same_b : {false, true}) {
      check_batched<float>(7, 5, 6, 4, same_a, same_b);
      check_batched<double>(3, 70, 33, 50, same_a, same_b);
      check_batched<std::complex<double>>(3, 7, 9, 5, same_a, same_b);
      check_batched<float>(2, 300, 300, 300, same_a, same_b);
      check_batched<float>(9, 33, 49, 300, same_a, same_b);
      check_batched<float>(5, 1, 20, 30, same_a, same_b);
      check_batched<double>(5, 20, 1, 30, same_a, same_b);
      check_batched<Half>(3, 20, 30, 10, same_a, same_b);
    }
  // B within L1: whole panels, edges, and operands that are packed.
  for (bool transposed_b : {false, true})
    for (double beta : {0.0, 1.0, 0.5}) {
      check_batched<float>(3, 128, 128, 64, false, false, transposed_b, 1, beta);
      check_batched<float>(4, 45, 100, 51, false, false, transposed_b, 1, beta);
      check_batched<float>(4, 14, 33, 120, false, false, transposed_b, 2, beta);
      check_batched<double>(3, 64, 64, 64, false, false, transposed_b, 1, beta);
      check_batched<double>(4, 29, 47, 70, false, false, transposed_b, 0.5, beta);
    }
  check_batched<float>(0, 5, 6, 4, false, false);
  check_batched<float>(500, 2, 3, 4, false, false);
}

template <class T>
void check_dot(int64_t n, int64_t xs, int64_t ys, bool conj) {
  std::mt19937 rng(n);
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> x(n * xs + 1), y(n * ys + 1);
  for (auto& v : x) v = random_value<T>(rng);
  for (auto& v : y) v = random_value<T>(rng);
  typename Traits<T>::Wide sum{};
  for (int64_t i = 0; i < n; ++i)
    sum += maybe_conj<T>(widen(static_cast<T>(x[i * xs])), conj) * widen(static_cast<T>(y[i * ys]));
  T out;
  dot(DTypeOf<T>::value, n, x.data(), xs, y.data(), ys, conj, &out);
  if constexpr (std::is_same_v<T, bool>)
    EXPECT_EQ(out, sum != 0);
  else if constexpr (Traits<T>::kInt)
    EXPECT_EQ(out, static_cast<T>(sum));
  else
    EXPECT_LE(std::abs(widen(out) - sum), epsilon<T>() * (std::sqrt(n) * 4 + 1)) << n;
}
TYPED_TEST(GemmTest, Dot) {
  for (int64_t n : {0, 1, 2, 15, 16, 17, 100, 1000, 40000})
    for (int64_t xs : {1, 3})
      for (int64_t ys : {1, 2})
        for (bool conj : {false, true}) check_dot<TypeParam>(n, xs, ys, conj);
}

TEST(Gemm, BadArguments) {
  float x = 1;
  const MatrixRef r{&x, 1, 1};
  EXPECT_THROW(gemm(DType::kFloat8_e4m3fn, 1, 1, 1, {}, r, r, {}, r), NotImplementedError);
  EXPECT_THROW(gemm(DType::kFloat32, -1, 1, 1, {}, r, r, {}, r), Error);
  EXPECT_THROW(dot(DType::kQInt8, 1, &x, 1, &x, 1, false, &x), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cpu
