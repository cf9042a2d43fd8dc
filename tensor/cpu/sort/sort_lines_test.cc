// Sorting, the first k and order statistics of dense lines: sizes around the vector widths, and every way in which keys
// become words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/cpu/sort/sort.h"

namespace tessera::cpu {
namespace {

enum class Pattern { kBits, kFewValues, kFractions, kWide, kSpecials, kCloseKeys };

template <class T>
T number(Pattern pattern, std::mt19937_64& rng) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  const uint64_t r = rng();
  switch (pattern) {
    case Pattern::kBits: {
      T x;
      std::memcpy(&x, &r, sizeof(T));
      return x;
    }
    case Pattern::kFewValues:
      return static_cast<T>(static_cast<int64_t>(r % 7) - (std::is_unsigned_v<T> ? 0 : 3));
    case Pattern::kFractions:
      return static_cast<T>(static_cast<double>(r % 1000) / 10.0);
    case Pattern::kWide:
      return static_cast<T>(r % (sizeof(T) == 8 ? 5000000000u : 500000u));
    case Pattern::kSpecials:
      if constexpr (kFloat) return r % 3 == 0 ? (r % 2 ? T(NAN) : -T(NAN)) : r % 2 ? T(0) : -T(0);
      return static_cast<T>(r % 1000000);
    case Pattern::kCloseKeys:
      if constexpr (kFloat) return static_cast<T>(1 + static_cast<double>(r % 100000) * 1e-12);
      return sizeof(T) == 8 ? static_cast<T>((r % 5) << 40 | r / 8 % 9) : static_cast<T>(r % 9);
  }
  return T{};
}

template <class T>
bool before(T a, T b) {
  if (b != b) return a == a;
  return a < b;
}

template <class T>
struct Line {
  std::vector<T> x, values;
  std::vector<int64_t> indices, order;
  int64_t shape[1], stride[1] = {sizeof(T)}, index_stride[1] = {8}, zero[1] = {0};
  static constexpr DType kType = DTypeOf<T>::value;

  Line(int64_t n, Pattern pattern, std::mt19937_64& rng) : x(n), values(n), indices(n), order(n), shape{n} {
    for (T& v : x) v = number<T>(pattern, rng);
  }
  Operand in() { return {x.data(), kType, stride}; }
  Operand out(bool one = false) { return {values.data(), kType, one ? zero : stride}; }
  Operand places(bool one = false) { return {indices.data(), DType::kInt64, one ? zero : index_stride}; }
  void find_order(bool descending) {
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return descending ? before(x[b], x[a]) : before(x[a], x[b]); });
  }
  void expect_first(int64_t k) {
    for (int64_t i = 0; i < k; ++i) {
      ASSERT_EQ(indices[i], order[i]) << name_of(kType) << " at " << i << " of " << x.size();
      ASSERT_EQ(std::memcmp(&values[i], &x[order[i]], sizeof(T)), 0);
    }
  }
  void expect_selected(int64_t k) {
    ASSERT_EQ(indices[0], order[k]) << name_of(kType) << ": the " << k << "-th of " << x.size();
    ASSERT_EQ(std::memcmp(&values[0], &x[order[k]], sizeof(T)), 0);
  }
};

template <class T>
void check(int64_t n, Pattern pattern, std::mt19937_64& rng) {
  Line<T> line(n, pattern, rng);
  for (bool descending : {true, false}) {
    line.find_order(descending);
    run_sort(line.shape, 0, descending, line.out(), line.places(), line.in());
    line.expect_first(n);
    for (int64_t k : {int64_t{1}, int64_t{3}, n / 8, n / 2, n}) {
      if (k < 1 || k > n) continue;
      run_topk(line.shape, 0, k, descending, true, line.out(), line.places(), line.in());
      line.expect_first(k);
    }
  }
  const int64_t numbers = std::count_if(line.x.begin(), line.x.end(), [](T v) { return v == v; });
  for (int64_t k : {int64_t{0}, n / 3, n - 1}) {
    run_select(SelectKind::kNth, line.shape, 0, k, line.out(true), line.places(true), line.in());
    line.expect_selected(k);
  }
  run_select(SelectKind::kMedian, line.shape, 0, 0, line.out(true), line.places(true), line.in());
  line.expect_selected(numbers == n ? (n - 1) / 2 : numbers);
  run_select(SelectKind::kNanMedian, line.shape, 0, 0, line.out(true), line.places(true), line.in());
  line.expect_selected(std::max<int64_t>(numbers - 1, 0) / 2);
}

template <class T>
void check_all(std::mt19937_64& rng) {
  for (int64_t n : {1,  2,   3,   4,   5,   7,   8,   9,   15,  16,  17,  31,   32,   33,   63,   64,
                    65, 100, 127, 128, 129, 130, 200, 255, 256, 257, 316, 1000, 1023, 3162, 20000}) {
    for (Pattern p : {Pattern::kBits, Pattern::kFewValues, Pattern::kFractions, Pattern::kWide, Pattern::kSpecials,
                      Pattern::kCloseKeys})
      check<T>(n, p, rng);
  }
}
TEST(SortLines, Float32) {
  std::mt19937_64 rng(1);
  check_all<float>(rng);
}
TEST(SortLines, Float64) {
  std::mt19937_64 rng(2);
  check_all<double>(rng);
}
TEST(SortLines, Int32) {
  std::mt19937_64 rng(3);
  check_all<int32_t>(rng);
}
TEST(SortLines, Int64) {
  std::mt19937_64 rng(4);
  check_all<int64_t>(rng);
}
TEST(SortLines, UInt64) {
  std::mt19937_64 rng(5);
  check_all<uint64_t>(rng);
}

TEST(SortLines, LongLines) {
  std::mt19937_64 rng(6);
  check<float>(2100000, Pattern::kBits, rng);
  check<int64_t>(2100000, Pattern::kWide, rng);
}

// Inputs that are in order, or almost, in one direction or the other.
TEST(SortLines, OrderedLines) {
  std::mt19937_64 rng(7);
  for (int64_t n : {300, 5000}) {
    for (int kind = 0; kind < 4; ++kind) {
      Line<float> line(n, Pattern::kFewValues, rng);
      for (int64_t i = 0; i < n; ++i)
        line.x[i] = static_cast<float>(kind == 0 ? i : kind == 1 ? -i : kind == 2 ? std::min(i, n - i) : i % 17);
      line.find_order(false);
      run_sort(line.shape, 0, false, line.out(), line.places(), line.in());
      line.expect_first(n);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu
