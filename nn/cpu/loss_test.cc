#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/loss.h"

namespace tessera::cpu {
namespace {

template <class T>
std::vector<T> random_vector(int64_t n, int seed, float low = -1) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (auto& x : v) x = static_cast<T>(std::uniform_real_distribution<float>(low, 1)(rng));
  return v;
}

template <class T>
class LossTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(LossTest, Types);

template <class T>
double eps() {
  return sizeof(T) == 2 ? 8e-3 : sizeof(T) == 4 ? 1e-6 : 1e-14;
}

template <class T>
void check_nll(int64_t batch, int64_t classes, int64_t inner, bool weighted, LossReduction reduction) {
  constexpr DType kType = DTypeOf<T>::value;
  const int64_t n = batch * inner;
  const bool each = reduction == LossReduction::kNone;
  const auto x = random_vector<T>(n * classes, 1), weight = random_vector<T>(classes, 2, 0.1f),
             dy = random_vector<T>(each ? n : 1, 3);
  std::vector<int64_t> target(n);
  std::mt19937 rng(4);
  for (auto& t : target) t = rng() % 5 == 0 ? -100 : static_cast<int64_t>(rng() % classes);
  std::vector<T> out(each ? n : 1), dx(x.size(), T(9));
  T total;
  nll_loss_forward(kType, batch, classes, inner, x.data(), target.data(), weighted ? weight.data() : nullptr, reduction,
                   -100, out.data(), &total);
  nll_loss_backward(kType, batch, classes, inner, dy.data(), target.data(), weighted ? weight.data() : nullptr,
                    reduction, -100, &total, dx.data());
  double sum = 0, weights = 0;
  std::vector<double> edx(x.size()), losses(n);
  for (int64_t i = 0; i < n; ++i) {
    if (target[i] == -100) continue;
    const int64_t at = (i / inner * classes + target[i]) * inner + i % inner;
    const double w = weighted ? static_cast<double>(weight[target[i]]) : 1;
    losses[i] = -w * static_cast<double>(x[at]);
    sum += losses[i];
    weights += w;
    edx[at] = -w * static_cast<double>(dy[each ? i : 0]);
  }
  if (reduction == LossReduction::kMean)
    for (auto& v : edx) v /= static_cast<double>(total);
  if (each) {
    for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(static_cast<double>(out[i]), losses[i], eps<T>());
  } else {
    EXPECT_NEAR(static_cast<double>(total), weights, eps<T>() * weights);
    const double expected = reduction == LossReduction::kMean ? sum / weights : sum;
    EXPECT_NEAR(static_cast<double>(out[0]), expected, eps<T>() * (std::abs(expected) + 1));
  }
  for (size_t i = 0; i < dx.size(); ++i)
    ASSERT_NEAR(static_cast<double>(dx[i]), edx[i], eps<T>() * (1 + std::abs(edx[i])));
}

TYPED_TEST(LossTest, NllMatchesTheDefinition) {
  for (auto reduction : {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum})
    for (bool weighted : {false, true}) {
      check_nll<TypeParam>(6, 5, 1, weighted, reduction);
      check_nll<TypeParam>(3, 4, 7, weighted, reduction);
      check_nll<TypeParam>(9000, 3, 2, weighted, reduction);
    }
}

TEST(Loss, MeanOfNothingIsNan) {
  const int64_t ignored = -100;
  float x = 1, out = 0, total = 1;
  nll_loss_forward(DType::kFloat32, 1, 1, 1, &x, &ignored, nullptr, LossReduction::kMean, -100, &out, &total);
  EXPECT_TRUE(std::isnan(out));
  EXPECT_EQ(total, 0);
  nll_loss_forward(DType::kFloat32, 0, 1, 1, &x, &ignored, nullptr, LossReduction::kSum, -100, &out, &total);
  EXPECT_EQ(out, 0);
}

TEST(Loss, TargetsAreCheckedBeforeAnythingIsWritten) {
  const std::vector<float> x(6, 1);
  const std::vector<int64_t> target = {0, 3};
  std::vector<float> out(2, 5);
  float total = 5;
  try {
    nll_loss_forward(DType::kFloat32, 2, 3, 1, x.data(), target.data(), nullptr, LossReduction::kNone, -100, out.data(),
                     &total);
    FAIL();
  } catch (const IndexError& e) { EXPECT_STREQ(e.what(), "Target 3 is out of bounds."); }
  EXPECT_EQ(out, std::vector<float>(2, 5));
  EXPECT_EQ(total, 5);
  std::vector<float> dx(6, 5);
  EXPECT_THROW(nll_loss_backward(DType::kFloat32, 2, 3, 1, x.data(), target.data(), nullptr, LossReduction::kNone, -100,
                                 &total, dx.data()),
               IndexError);
  EXPECT_EQ(dx, std::vector<float>(6, 5));
  int64_t n = 0;
  EXPECT_THROW(nll_loss_forward(DType::kInt64, 1, 1, 1, &n, &n, nullptr, LossReduction::kSum, -100, &n, &n),
               NotImplementedError);
}

TEST(Loss, SameBitsAtAnyThreadCount) {
  const int before = num_threads();
  const auto x = random_vector<float>(50000 * 3, 1);
  const std::vector<int64_t> target(50000, 1);
  float first = 0;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    float out, total;
    nll_loss_forward(DType::kFloat32, 50000, 3, 1, x.data(), target.data(), nullptr, LossReduction::kSum, -100, &out,
                     &total);
    if (threads == 1) first = out;
    EXPECT_EQ(out, first);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
