#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "tensor/core/half.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera {
namespace {

constexpr DType kAll[] = {
    DType::kBool,       DType::kUInt8,         DType::kInt8,        DType::kInt16,           DType::kInt32,
    DType::kInt64,      DType::kUInt16,        DType::kUInt32,      DType::kUInt64,          DType::kFloat16,
    DType::kBFloat16,   DType::kFloat32,       DType::kFloat64,     DType::kComplex32,       DType::kComplex64,
    DType::kComplex128, DType::kFloat8_e4m3fn, DType::kFloat8_e5m2, DType::kFloat8_e4m3fnuz, DType::kFloat8_e5m2fnuz};

TEST(Convert, SmallIntegersSurviveEveryPairOfTypes) {
  const int n = 700;  // more than a chunk
  std::vector<double> numbers(n);
  for (int i = 0; i < n; ++i) numbers[i] = i % 8;  // exact in every format
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      std::vector<char> a(n * 16), b(n * 16);
      std::vector<double> back(n);
      cpu::convert(from, a.data(), DType::kFloat64, numbers.data(), n);
      cpu::convert(to, b.data(), from, a.data(), n);
      cpu::convert(DType::kFloat64, back.data(), to, b.data(), n);
      for (int i = 0; i < n; ++i) {
        const bool truth = from == DType::kBool || to == DType::kBool;
        ASSERT_EQ(back[i], truth ? numbers[i] != 0 : numbers[i]) << name_of(from) << " -> " << name_of(to);
      }
    }
  }
}

TEST(Convert, ToBoolIsNotZero) {
  const float x[5] = {0, -0.0f, 0.25f, std::numeric_limits<float>::quiet_NaN(), -3};
  uint8_t b[5];
  cpu::convert(DType::kBool, b, DType::kFloat32, x, 5);
  EXPECT_EQ(std::vector<uint8_t>(b, b + 5), (std::vector<uint8_t>{0, 0, 1, 1, 1}));
  const std::complex<float> z[2] = {{0, 1}, {0, 0}};
  cpu::convert(DType::kBool, b, DType::kComplex64, z, 2);
  EXPECT_EQ(b[0], 1);
  EXPECT_EQ(b[1], 0);
}

TEST(Convert, FloatToIntegerTruncatesAndWrapsNegatives) {
  const float x[6] = {1.9f, -1.9f, 255, -1, 100.5f, 0};
  uint8_t u[6];
  int64_t i[6];
  uint64_t w[1];
  cpu::convert(DType::kUInt8, u, DType::kFloat32, x, 6);
  EXPECT_EQ(std::vector<uint8_t>(u, u + 6), (std::vector<uint8_t>{1, 255, 255, 255, 100, 0}));
  cpu::convert(DType::kInt64, i, DType::kFloat32, x, 6);
  EXPECT_EQ(std::vector<int64_t>(i, i + 6), (std::vector<int64_t>{1, -1, 255, -1, 100, 0}));
  const double big = 1.5 * 9223372036854775808.0;
  cpu::convert(DType::kUInt64, w, DType::kFloat64, &big, 1);
  EXPECT_EQ(w[0], 13835058055282163712ull);
}

TEST(Convert, HalfBitsEqualTheScalarCode) {
  std::mt19937 rng(1);
  std::vector<float> x(20000);
  for (auto& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(rng()));
  for (int i = 0; i < 3000; ++i) x[i] = static_cast<float>(i - 1500) * 0.37f;
  std::vector<uint16_t> h(x.size()), b(x.size());
  cpu::convert(DType::kFloat16, h.data(), DType::kFloat32, x.data(), x.size());
  cpu::convert(DType::kBFloat16, b.data(), DType::kFloat32, x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(h[i], float_to_half_bits(x[i])) << x[i];
    ASSERT_EQ(b[i], float_to_bfloat16_bits(x[i])) << x[i];
  }
  std::vector<uint16_t> all(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> f(65536);
  cpu::convert(DType::kFloat32, f.data(), DType::kFloat16, all.data(), 65536);
  for (int i = 0; i < 65536; ++i) {
    const float want = half_bits_to_float(static_cast<uint16_t>(i));
    ASSERT_TRUE(std::isnan(want) ? std::isnan(f[i]) : f[i] == want && std::signbit(f[i]) == std::signbit(want)) << i;
  }
}

int64_t offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t linear) {
  int64_t at = 0;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    at += linear % shape[d] * strides[d];
    linear /= shape[d];
  }
  return at;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape, int64_t size, std::mt19937* shuffle) {
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  if (shuffle) std::shuffle(order.begin(), order.end(), *shuffle);
  std::vector<int64_t> strides(shape.size());
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
    strides[order[i]] = size;
    size *= shape[order[i]];
  }
  return strides;
}

TEST(Copy, PermutationsOfEveryElementSize) {
  std::mt19937 rng(5);
  for (int round = 0; round < 120; ++round) {
    const DType t =
        std::vector<DType>{DType::kUInt8, DType::kInt16, DType::kFloat32, DType::kInt64, DType::kComplex128}[round % 5];
    const int64_t size = item_size(t);
    std::vector<int64_t> shape(1 + rng() % 4);
    for (auto& s : shape) s = 1 + rng() % (shape.size() <= 2 ? 150 : 12);
    int64_t numel = 1;
    for (const int64_t s : shape) numel *= s;
    const auto ss = dense_strides(shape, size, &rng), ds = dense_strides(shape, size, &rng);
    std::vector<char> src(numel * size), dst(numel * size);
    for (auto& c : src) c = static_cast<char>(rng());
    cpu::copy_strided(shape, {dst.data(), t, ds.data()}, {src.data(), t, ss.data()});
    for (int64_t i = 0; i < numel; ++i)
      ASSERT_EQ(std::memcmp(&dst[offset(shape, ds, i)], &src[offset(shape, ss, i)], size), 0) << "round " << round;
  }
}

TEST(Copy, TransposesAroundTheEdgesOfTiles) {
  for (const DType t : {DType::kUInt8, DType::kInt16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const int64_t size = item_size(t);
    for (const auto& [rows, cols, gap] :
         {std::tuple{16, 16, 0}, {17, 16, 1}, {16, 33, 3}, {15, 130, 0}, {257, 141, 5}, {64, 64, 64}, {900, 700, 3}}) {
      const int64_t in_row = cols + gap, out_row = rows + gap;  // elements
      std::vector<char> in(rows * in_row * size), out(cols * out_row * size, 'x');
      std::mt19937 random(static_cast<uint32_t>(rows));
      for (char& c : in) c = static_cast<char>(random());
      const int64_t shape[] = {cols, rows}, to[] = {out_row * size, size}, from[] = {size, in_row * size};
      cpu::copy_strided(shape, {out.data(), t, to}, {in.data(), t, from});
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(std::memcmp(&out[(c * out_row + r) * size], &in[(r * in_row + c) * size], size), 0)
              << name_of(t) << " " << rows << "x" << cols << " at " << r << "," << c;
        }
        for (int64_t i = rows * size; i < out_row * size; ++i) ASSERT_EQ(out[c * out_row * size + i], 'x');
      }
    }
  }
}

TEST(Copy, LargeTransposesPastTheCaches) {  // long and short rows, in one or several pieces, with and without a gap
                                            // between them
  struct Case {
    DType t;
    int64_t rows, cols, gap;
  };
  for (const Case& k : {Case{DType::kUInt8, 16500, 1030, 3},
                        {DType::kInt16, 8200, 1030, 0},
                        {DType::kFloat32, 4100, 1037, 3},
                        {DType::kFloat32, 20, 210001, 0},
                        {DType::kFloat32, 4096, 1056, 0},
                        {DType::kInt64, 2051, 1030, 1},
                        {DType::kComplex128, 1031, 1033, 0}}) {
    const int64_t size = item_size(k.t), in_row = k.cols + k.gap, out_row = k.rows + k.gap;  // elements
    std::vector<char> in(k.rows * in_row * size), out(k.cols * out_row * size, 'x');
    std::mt19937 random(7);
    for (size_t i = 0; i < in.size(); i += 4)
      std::memcpy(&in[i], std::array<uint32_t, 1>{static_cast<uint32_t>(random())}.data(),
                  std::min<size_t>(4, in.size() - i));
    const int64_t shape[] = {k.cols, k.rows}, to[] = {out_row * size, size}, from[] = {size, in_row * size};
    cpu::copy_strided(shape, {out.data(), k.t, to}, {in.data(), k.t, from});
    for (int64_t c = 0; c < k.cols; ++c) {
      for (int64_t r = 0; r < k.rows; ++r) {
        if (std::memcmp(&out[(c * out_row + r) * size], &in[(r * in_row + c) * size], size) != 0)
          FAIL() << name_of(k.t) << " " << k.rows << " at " << r << "," << c;
      }
      for (int64_t i = k.rows * size; i < out_row * size; ++i) ASSERT_EQ(out[c * out_row * size + i], 'x');
    }
  }
}

TEST(Copy, LargeRowsPastTheCaches) {  // into wider rows, as in cat
  for (const auto& [rows, cols, gap] :
       {std::tuple<int64_t, int64_t, int64_t>{2600, 1001, 7}, {3, 900001, 5}, {1, 2600003, 0}, {12001, 257, 3}}) {
    const int64_t out_row = cols + gap;
    std::vector<float> in(rows * cols), out(rows * out_row, -1.0f);
    for (int64_t i = 0; i < rows * cols; ++i) in[i] = static_cast<float>(i);
    const int64_t shape[] = {rows, cols}, to[] = {out_row * 4, 4}, from[] = {cols * 4, 4};
    cpu::copy_strided(shape, {out.data(), DType::kFloat32, to}, {in.data(), DType::kFloat32, from});
    for (int64_t i = 0; i < rows * out_row; ++i) {
      const int64_t r = i / out_row, c = i % out_row;
      ASSERT_EQ(out[i], c < cols ? in[r * cols + c] : -1.0f) << rows << "x" << cols << " at " << r << "," << c;
    }
  }
}

TEST(Convert, LargeArraysEqualSmallOnes) {
  const int64_t n = 6000011;
  std::vector<uint8_t> bytes(n);
  for (int64_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 37 % 251);
  std::vector<char> a(n * 8), b(n * 8 + 4);
  for (const auto& [from, to] : {std::pair{DType::kUInt8, DType::kFloat32},
                                 {DType::kFloat32, DType::kBFloat16},
                                 {DType::kBFloat16, DType::kFloat32},
                                 {DType::kFloat32, DType::kFloat16},
                                 {DType::kFloat32, DType::kInt64},
                                 {DType::kInt64, DType::kFloat32},
                                 {DType::kFloat64, DType::kBool}}) {
    cpu::convert(from, a.data(), DType::kUInt8, bytes.data(), n);
    const int64_t from_size = item_size(from), to_size = item_size(to);
    for (const int64_t shift : {int64_t{0}, to_size}) {
      std::fill(b.begin(), b.end(), 'x');
      const int64_t count = n - 1;
      cpu::copy_strided({&count, 1}, {b.data() + shift, to, &to_size}, {a.data(), from, &from_size});
      std::vector<char> want(1000 * to_size);
      for (int64_t i = 0; i < count; i += 1000) {
        const int64_t m = std::min<int64_t>(1000, count - i);
        cpu::convert(to, want.data(), from, a.data() + i * from_size, m);
        ASSERT_EQ(std::memcmp(want.data(), b.data() + shift + i * to_size, m * to_size), 0)
            << name_of(from) << " -> " << name_of(to) << " at " << i;
      }
      EXPECT_EQ(b[shift + count * to_size], 'x');
    }
  }
}

TEST(Copy, FillsOfEverySizeAndLength) {
  const char value[17] = "0123456789abcdef";
  for (const DType t : {DType::kUInt8, DType::kInt16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    const int64_t size = item_size(t);
    for (int64_t n = 0; n < 150; ++n) {
      std::vector<char> out((n + 1) * size, 'x');
      const int64_t shape[] = {n}, strides[] = {size};
      cpu::fill_strided(shape, {out.data(), t, strides}, value);
      for (int64_t i = 0; i < n * size; ++i) ASSERT_EQ(out[i], value[i % size]);
      for (int64_t i = n * size; i < (n + 1) * size; ++i) ASSERT_EQ(out[i], 'x');
    }
  }
}

TEST(Copy, CastsWithAnyStrides) {
  std::mt19937 rng(6);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> shape(1 + rng() % 3);
    for (auto& s : shape) s = 1 + rng() % 60;
    int64_t numel = 1;
    for (const int64_t s : shape) numel *= s;
    const auto ss = dense_strides(shape, 2, &rng), ds = dense_strides(shape, 8, &rng);
    std::vector<int16_t> src(numel);
    std::vector<double> dst(numel);
    for (auto& v : src) v = static_cast<int16_t>(rng());
    cpu::copy_strided(shape, {dst.data(), DType::kFloat64, ds.data()}, {src.data(), DType::kInt16, ss.data()}, false,
                      round % 2);
    for (int64_t i = 0; i < numel; ++i) {
      const int16_t v = src[offset(shape, ss, i) / 2];
      ASSERT_EQ(dst[offset(shape, ds, i) / 8], round % 2 ? static_cast<int16_t>(-v) : v);
    }
  }
}

TEST(Copy, ConjugatesAndNegates) {
  using C = std::complex<float>;
  const C src[3] = {{1, 2}, {-3, 0}, {0, -4}};
  C dst[3];
  const int64_t shape[1] = {3}, stride[1] = {8};
  const cpu::Operand d{dst, DType::kComplex64, stride}, s{const_cast<C*>(src), DType::kComplex64, stride};
  for (int mode = 0; mode < 4; ++mode) {
    cpu::copy_strided(shape, d, s, mode & 1, mode & 2);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(dst[i], (mode & 2 ? -1.0f : 1.0f) * (mode & 1 ? std::conj(src[i]) : src[i]));
  }
}

TEST(Copy, BroadcastSource) {
  const int64_t shape[2] = {70, 90}, dense[2] = {360, 4}, column[2] = {4, 0}, row[2] = {0, 4};
  std::vector<float> v(90), out(70 * 90);
  for (int i = 0; i < 90; ++i) v[i] = static_cast<float>(i);
  cpu::copy_strided(shape, {out.data(), DType::kFloat32, dense}, {v.data(), DType::kFloat32, column});
  for (int i = 0; i < 70 * 90; ++i) ASSERT_EQ(out[i], v[i / 90]);
  cpu::copy_strided(shape, {out.data(), DType::kFloat32, dense}, {v.data(), DType::kFloat32, row});
  for (int i = 0; i < 70 * 90; ++i) ASSERT_EQ(out[i], v[i % 90]);
}

TEST(Copy, FillTouchesOnlyItsElements) {
  std::vector<int32_t> x(1000, 7);
  const int64_t shape[2] = {10, 20}, strides[2] = {400, 8};
  const int32_t value = -5;
  cpu::fill_strided(shape, {x.data(), DType::kInt32, strides}, &value);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(x[i], i % 100 < 40 && i % 2 == 0 ? -5 : 7) << i;
  const int64_t none[1] = {0}, four[1] = {4};
  cpu::fill_strided(none, {nullptr, DType::kInt32, four}, &value);
}

}  // namespace
}  // namespace tessera
