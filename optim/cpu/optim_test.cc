#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "optim/cpu/optim.h"

namespace tessera::cpu {
namespace {

template <class T>
std::vector<T> random_vector(int64_t n, int seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (auto& x : v) x = static_cast<T>(std::uniform_real_distribution<float>(-1, 1)(rng));
  return v;
}
template <class T>
class OptimTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(OptimTest, Types);
template <class T>
double eps() {
  return sizeof(T) == 2 ? 3e-2 : sizeof(T) == 4 ? 3e-6 : 1e-13;
}

constexpr int kSteps = 5;

template <class T>
void check_sgd(int64_t n, SgdStep s) {
  std::vector<T> p = random_vector<T>(n, 1), buffer(n, T(7));
  std::vector<double> ep(p.begin(), p.end()), eb(n);
  for (int step = 0; step < kSteps; ++step) {
    const auto grad = random_vector<T>(n, 10 + step);
    s.first_step = step == 0;
    sgd_step(DTypeOf<T>::value, n, s, p.data(), grad.data(), s.momentum != 0 ? buffer.data() : nullptr);
    for (int64_t i = 0; i < n; ++i) {
      double g = (s.maximize ? -1 : 1) * static_cast<double>(grad[i]) + s.weight_decay * ep[i];
      if (s.momentum != 0) {
        eb[i] = step == 0 ? g : s.momentum * eb[i] + (1 - s.dampening) * g;
        g = s.nesterov ? g + s.momentum * eb[i] : eb[i];
      }
      ep[i] -= s.lr * g;
    }
  }
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(static_cast<double>(p[i]), ep[i], eps<T>() * (1 + std::abs(ep[i]))) << i;
}
TYPED_TEST(OptimTest, Sgd) {
  for (int64_t n : {0, 1, 17, 20000}) {
    check_sgd<TypeParam>(n, {0.1, 0, 0, 0, false, false, false});
    check_sgd<TypeParam>(n, {0.1, 0, 0, 0.2, false, true, false});
    check_sgd<TypeParam>(n, {0.1, 0.9, 0, 0, false, false, false});
    check_sgd<TypeParam>(n, {0.1, 0.9, 0.3, 0.1, false, false, false});
    check_sgd<TypeParam>(n, {0.1, 0.9, 0, 0.1, true, true, false});
  }
}

template <class T>
void check_adam(int64_t n, AdamStep s) {
  std::vector<T> p = random_vector<T>(n, 1), m(n, T(0)), v(n, T(0)), x(n, T(0));
  std::vector<double> ep(p.begin(), p.end()), em(n), ev(n), ex(n);
  for (int step = 1; step <= kSteps; ++step) {
    auto grad = random_vector<T>(n, 10 + step);
    for (auto& g : grad)
      g = static_cast<T>(static_cast<float>(g) /
                         static_cast<float>(step));  // falling, so that the maximum of amsgrad matters
    s.step = step;
    adam_step(DTypeOf<T>::value, n, s, p.data(), grad.data(), m.data(), v.data(), s.amsgrad ? x.data() : nullptr);
    for (int64_t i = 0; i < n; ++i) {
      double g = (s.maximize ? -1 : 1) * static_cast<double>(grad[i]);
      if (s.decoupled_decay)
        ep[i] *= 1 - s.lr * s.weight_decay;
      else
        g += s.weight_decay * ep[i];
      em[i] = s.beta1 * em[i] + (1 - s.beta1) * g;
      ev[i] = s.beta2 * ev[i] + (1 - s.beta2) * g * g;
      ex[i] = std::max(ex[i], ev[i]);
      const double denominator = std::sqrt(s.amsgrad ? ex[i] : ev[i]) / std::sqrt(1 - std::pow(s.beta2, step)) + s.eps;
      ep[i] -= s.lr / (1 - std::pow(s.beta1, step)) * em[i] / denominator;
    }
  }
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(static_cast<double>(p[i]), ep[i], eps<T>() * (1 + std::abs(ep[i]))) << i;
}
TYPED_TEST(OptimTest, Adam) {
  for (int64_t n : {0, 1, 17, 20000})
    for (bool amsgrad : {false, true})
      for (bool decoupled : {false, true}) {
        check_adam<TypeParam>(n, {0.01, 0.9, 0.99, 1e-3, 0, decoupled, amsgrad, false, 0});
        check_adam<TypeParam>(n, {0.01, 0.3, 0.9, 1e-3, 0.1, decoupled, amsgrad, true, 0});
      }
}

TEST(Optim, BadDtype) {
  int64_t x = 0;
  EXPECT_THROW(sgd_step(DType::kInt64, 1, {}, &x, &x, nullptr), NotImplementedError);
  EXPECT_THROW(adam_step(DType::kComplex64, 1, {}, &x, &x, &x, &x, nullptr), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cpu
