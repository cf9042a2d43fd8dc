// The gradient of an embedding's table, against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "nn/cpu/embedding.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"

namespace tessera::cpu {
namespace {

template <class T>
std::vector<T> random_vector(int64_t n, int seed) {
  std::mt19937 rng(static_cast<unsigned>(seed));
  std::vector<T> v(static_cast<size_t>(n));
  for (auto& x : v) x = static_cast<T>(std::uniform_real_distribution<float>(-1, 1)(rng));
  return v;
}

template <class T>
class EmbeddingTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

template <class T>
double eps() {
  return sizeof(T) == 2 ? 8e-3 : sizeof(T) == 4 ? 1e-6 : 1e-14;
}

template <class T>
void check_embedding(int64_t n, int64_t dim, int64_t rows, int64_t padding, bool scale) {
  const auto dy = random_vector<T>(n * dim, 1);
  std::vector<int64_t> index(n), count(rows);
  std::mt19937 rng(2);
  for (auto& i : index) ++count[i = static_cast<int64_t>(rng() % rows)];
  std::vector<T> dw(rows * dim, T(9));
  embedding_backward(DTypeOf<T>::value, dy.data(), index.data(), n, dim, rows, padding, scale, dw.data());
  std::vector<double> expected(dw.size()), size(dw.size());
  for (int64_t i = 0; i < n; ++i)
    if (index[i] != padding)
      for (int64_t j = 0; j < dim; ++j) {
        const double v = static_cast<double>(dy[i * dim + j]) / (scale ? static_cast<double>(count[index[i]]) : 1);
        expected[index[i] * dim + j] += v;
        size[index[i] * dim + j] += std::abs(v);
      }
  for (size_t i = 0; i < dw.size(); ++i)
    ASSERT_NEAR(static_cast<double>(dw[i]), expected[i], eps<T>() * (size[i] + std::abs(expected[i])) + 1e-12);
}
TYPED_TEST(EmbeddingTest, Backward) {
  for (int64_t padding : {-1, 3})
    for (bool scale : {false, true}) {
      check_embedding<TypeParam>(50, 7, 11, padding, scale);
      check_embedding<TypeParam>(0, 7, 11, padding, scale);
      check_embedding<TypeParam>(3000, 33, 4, padding, scale);
      check_embedding<TypeParam>(10, 16, 5000, padding, scale);
    }
}
TEST(Embedding, IndicesAreCheckedFirst) {
  const std::vector<float> dy(4, 1);
  std::vector<float> dw(6, 5);
  for (int64_t bad : {-1, 3}) {
    const std::vector<int64_t> index = {0, bad};
    EXPECT_THROW(embedding_backward(DType::kFloat32, dy.data(), index.data(), 2, 2, 3, -1, false, dw.data()),
                 IndexError);
    EXPECT_EQ(dw, std::vector<float>(6, 5));
  }
}

}  // namespace
}  // namespace tessera::cpu
