// Counting integers and finding the distinct ones; the loops of index_simd.h.
#include "tensor/cpu/index/distinct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/cpu/index/index_simd.h"

namespace tessera::cpu {
namespace {

TEST(CountIntegers, MatchesTheDefinition) {
  std::mt19937_64 rng(1);
  for (int64_t span : {1, 7, 1000, 5000, 100000}) {
    for (int64_t n : {1, 3, 4097, 20000}) {
      std::vector<int64_t> x(n);
      for (int64_t i = 0; i < n; ++i)
        x[i] = static_cast<int64_t>(rng() % static_cast<uint64_t>(1 + i * span / n));  // tables grow on the way
      const auto counts = count_integers(x.data(), n, "negative");
      ASSERT_EQ(static_cast<int64_t>(counts.size()), *std::max_element(x.begin(), x.end()) + 1);
      for (size_t v = 0; v < counts.size(); ++v)
        ASSERT_EQ(counts[v], std::count(x.begin(), x.end(), static_cast<int64_t>(v)));
      if (n * span > 10000000) break;
    }
  }
  const int64_t bad[2] = {3, -1};
  EXPECT_THROW(count_integers(bad, 2, "negative"), Error);
}

TEST(CountBytes, IsCountIntegersOfThem) {
  std::mt19937_64 rng(3);
  for (int64_t span : {1, 7, 256}) {
    for (int64_t n : {1, 3, 4097, 300001}) {  // with runs where span is 1
      std::vector<uint8_t> x(n);
      for (uint8_t& v : x) v = static_cast<uint8_t>(rng() % static_cast<uint64_t>(span));
      const std::vector<int64_t> wide(x.begin(), x.end());
      ASSERT_EQ(count_bytes(x.data(), n), count_integers(wide.data(), n, "negative"));
    }
  }
}

TEST(DistinctIntegers, ValuesPlacesAndCounts) {
  std::mt19937_64 rng(2);
  for (int64_t n : {1, 10, 3000}) {
    std::vector<int64_t> x(n), inverse(n);
    std::map<int64_t, int64_t> want;
    for (int64_t& v : x) ++want[v = static_cast<int64_t>(rng() % 500) - 250];
    for (bool more : {false, true}) {
      Distinct found;
      ASSERT_TRUE(distinct_integers(x.data(), n, more ? inverse.data() : nullptr, more, found));
      ASSERT_EQ(found.values.size(), want.size());
      size_t i = 0;
      for (const auto& [value, count] : want) {
        ASSERT_EQ(found.values[i], value);
        if (more) { ASSERT_EQ(found.counts[i], count); }
        ++i;
      }
    }
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(std::next(want.begin(), inverse[i])->first, x[i]);
  }
  const int64_t far[2] = {INT64_MIN, INT64_MAX};
  Distinct nothing;
  EXPECT_FALSE(distinct_integers(far, 2, nullptr, true, nothing));
}

TEST(IndexSimd, BoundsGatherReverseAdd) {
  std::mt19937_64 rng(3);
  for (int64_t n : {0, 1, 7, 8, 9, 16, 31, 64, 100}) {
    std::vector<int64_t> index(n), wide(50), wide_out(n);
    std::vector<int32_t> narrow(50), narrow_out(n);
    for (int64_t& i : index) i = static_cast<int64_t>(rng() % 50);
    for (int64_t i = 0; i < 50; ++i) wide[i] = static_cast<int64_t>(rng()), narrow[i] = static_cast<int32_t>(rng());
    EXPECT_TRUE(indices_within(index.data(), n, 50));
    gather_elements(8, wide_out.data(), wide.data(), index.data(), n, 50);
    gather_elements(4, narrow_out.data(), narrow.data(), index.data(), n, 50);
    for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(wide_out[i] == wide[index[i]] && narrow_out[i] == narrow[index[i]]);
    for (int64_t at = 0; at < n; ++at) {
      for (int64_t bad : {int64_t{-1}, int64_t{50}, INT64_MIN, INT64_MAX}) {
        const int64_t kept = index[at];
        index[at] = bad;
        EXPECT_FALSE(indices_within(index.data(), n, 50));
        index[at] = kept;
      }
    }
    for (int64_t size : {1, 2, 4, 8}) {
      std::vector<uint8_t> from(n * size), to(n * size);
      for (uint8_t& b : from) b = static_cast<uint8_t>(rng());
      reverse_elements(size, to.data(), from.data() + (n - 1) * size, n);
      for (int64_t i = 0; i < n * size; ++i) ASSERT_EQ(to[i], from[(n - 1 - i / size) * size + i % size]);
    }
    std::vector<float> a(n, 1.5f), b(n, 2.0f);
    EXPECT_TRUE(add_elements(DType::kFloat32, a.data(), b.data(), n));
    EXPECT_EQ(a, std::vector<float>(n, 3.5f));
  }
}

}  // namespace
}  // namespace tessera::cpu
