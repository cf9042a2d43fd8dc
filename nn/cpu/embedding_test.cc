// Bags of embeddings, against the definition.
#include "nn/cpu/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/core/half.h"

namespace tessera::cpu {
namespace {

template <class T>
void check(BagMode mode, int64_t dim, int64_t padding, bool scaled, bool with_nan) {
  std::mt19937 rng(static_cast<unsigned>(dim * 7 + static_cast<int64_t>(mode)));
  const int64_t rows = 50, bags = 6;
  std::vector<T> table(rows * dim);
  for (T& v : table) v = static_cast<T>(static_cast<float>(std::normal_distribution<double>(0, 1)(rng)));
  if (with_nan) table[7 * dim] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  const std::vector<int64_t> begin = {0, 3, 3, 20, 21, 40, 41};
  std::vector<int64_t> index(41);
  for (int64_t& i : index) i = static_cast<int64_t>(rng() % 12);
  std::vector<T> scale(41), out(bags * dim, static_cast<T>(9.0f));
  for (T& s : scale) s = static_cast<T>(static_cast<float>(rng() % 5) * 0.5f - 1);
  std::vector<int64_t> sizes(bags, -1), places(bags * dim, -1);
  embedding_bag_forward(DTypeOf<T>::value, mode, {bags, index.data(), begin.data(), padding}, dim, table.data(),
                        scaled ? scale.data() : nullptr, out.data(), sizes.data(),
                        mode == BagMode::kMax ? places.data() : nullptr);
  for (int64_t b = 0; b < bags; ++b) {
    for (int64_t k = 0; k < dim; ++k) {
      double want = 0;
      int64_t count = 0, place = 0;
      for (int64_t i = begin[b]; i < begin[b + 1]; ++i) {
        if (index[i] == padding) continue;
        const double v = static_cast<double>(static_cast<float>(table[index[i] * dim + k]));
        if (mode != BagMode::kMax) {
          want += scaled ? v * static_cast<double>(static_cast<float>(scale[i])) : v;
        } else if (count == 0 || (!std::isnan(want) && !(want >= v))) {
          want = v;
          place = index[i];
        }
        ++count;
      }
      if (mode == BagMode::kMean && count > 0) want /= static_cast<double>(count);
      ASSERT_EQ(sizes[b], count);
      const double got = static_cast<double>(static_cast<float>(out[b * dim + k]));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got));
      } else {
        ASSERT_NEAR(got, want, (sizeof(T) == 2 ? 1e-2 : 1e-5) * (1 + std::abs(want)));
      }
      if (mode == BagMode::kMax) { ASSERT_EQ(places[b * dim + k], place); }
    }
  }
}

template <class T>
void check_all() {
  for (int64_t dim : {1, 3, 8, 16, 17, 64, 100, 130}) {
    for (int64_t padding : {-1, 5}) {
      for (BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
        check<T>(mode, dim, padding, false, dim == 17);
      check<T>(BagMode::kSum, dim, padding, true, false);
    }
  }
}
TEST(EmbeddingBag, Float32) { check_all<float>(); }
TEST(EmbeddingBag, Float64) { check_all<double>(); }
TEST(EmbeddingBag, Halves) {
  check_all<Half>();
  check_all<BFloat16>();
}
TEST(OneHot, OnePerRow) {
  const std::vector<int64_t> index = {2, 0, 1, 2};
  std::vector<int64_t> out(12, 7);
  one_hot(index.data(), 4, 3, out.data());
  EXPECT_EQ(out, (std::vector<int64_t>{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace tessera::cpu
