#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/norm.h"

namespace tessera::cpu {
namespace {

template <class T>
std::vector<T> random_vector(int64_t n, int seed, float mean = 0) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (auto& x : v) x = static_cast<T>(mean + std::uniform_real_distribution<float>(-1, 1)(rng));
  return v;
}
template <class T>
double eps() {
  return sizeof(T) == 2 ? 2e-2 : sizeof(T) == 4 ? 3e-6 : 1e-12;
}
template <class T>
using Stat = std::conditional_t<sizeof(T) == 2, float, T>;
template <class T>
double at(const std::vector<T>& v, int64_t i) {
  return static_cast<double>(v[i]);
}

// The definition: a group is a list of element positions with a common mean; the weight of an element is that of its
// parameter.
struct Reference {
  std::vector<double> y, dx, dweight, dbias, mean, var;
};
// group_of, param_of: by element position.
template <class T, class G, class P>
Reference reference(int64_t n, int64_t groups, int64_t params, double epsilon, const std::vector<T>& x,
                    const std::vector<T>& dy, const std::vector<T>* weight, const std::vector<T>* bias, G&& group_of,
                    P&& param_of) {
  Reference r;
  r.y.resize(n);
  r.dx.resize(n);
  r.dweight.resize(params);
  r.dbias.resize(params);
  r.mean.resize(groups);
  r.var.resize(groups);
  std::vector<double> count(groups), g_mean(groups), h_mean(groups);
  for (int64_t i = 0; i < n; ++i) {
    r.mean[group_of(i)] += at(x, i);
    count[group_of(i)] += 1;
  }
  for (int64_t g = 0; g < groups; ++g) r.mean[g] /= count[g];
  for (int64_t i = 0; i < n; ++i)
    r.var[group_of(i)] += std::pow(at(x, i) - r.mean[group_of(i)], 2) / count[group_of(i)];
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t g = group_of(i), p = param_of(i);
      const double rstd = 1 / std::sqrt(r.var[g] + epsilon), h = (at(x, i) - r.mean[g]) * rstd,
                   w = weight ? at(*weight, p) : 1, v = at(dy, i) * w;
      if (pass == 0) {
        r.y[i] = h * w + (bias ? at(*bias, p) : 0);
        r.dweight[p] += at(dy, i) * h;
        r.dbias[p] += at(dy, i);
        g_mean[g] += v / count[g];
        h_mean[g] += v * h / count[g];
      } else {
        r.dx[i] = rstd * (v - g_mean[g] - h * h_mean[g]);
      }
    }
  return r;
}
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& expected, double tolerance, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], tolerance * (1 + std::abs(expected[i]))) << what << i;
}

template <class T>
class NormTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(NormTest, Types);

template <class T>
void check_layer(int64_t rows, int64_t n, bool affine, float shift) {
  constexpr DType kType = DTypeOf<T>::value;
  const auto x = random_vector<T>(rows * n, 1, shift), dy = random_vector<T>(rows * n, 2),
             weight = random_vector<T>(n, 3), bias = random_vector<T>(n, 4);
  const Reference r = reference(
      rows * n, rows, n, 1e-5, x, dy, affine ? &weight : nullptr, affine ? &bias : nullptr,
      [n](int64_t i) { return i / n; }, [n](int64_t i) { return i % n; });
  std::vector<T> y(x.size()), dx(x.size(), T(9)), dw(n, T(9)), db(n, T(9)), dx2(dx);
  std::vector<Stat<T>> mean(rows), rstd(rows);
  layer_norm_forward(kType, rows, n, 1e-5, x.data(), affine ? weight.data() : nullptr, affine ? bias.data() : nullptr,
                     y.data(), mean.data(), rstd.data());
  layer_norm_backward(kType, rows, n, dy.data(), x.data(), mean.data(), rstd.data(), affine ? weight.data() : nullptr,
                      dx.data(), dw.data(), db.data());
  layer_norm_backward(kType, rows, n, dy.data(), x.data(), mean.data(), rstd.data(), affine ? weight.data() : nullptr,
                      dx2.data(), nullptr, nullptr);
  const double tolerance = eps<T>() * (1 + std::abs(shift)) * (n == 1 ? 1000 : n < 4 ? 30 : 1);
  expect_near(y, r.y, tolerance, "y ");
  expect_near(mean, r.mean, tolerance, "mean ");
  expect_near(dx, r.dx, tolerance * 3, "dx ");
  expect_near(dw, r.dweight, tolerance * 3, "dweight ");
  expect_near(db, r.dbias, tolerance, "dbias ");
  EXPECT_EQ(std::memcmp(dx.data(), dx2.data(), dx.size() * sizeof(T)), 0);
}
TYPED_TEST(NormTest, Layer) {
  for (bool affine : {false, true})
    for (int64_t n : {3, 8, 17, 64, 1000}) {
      check_layer<TypeParam>(1, n, affine, 0);
      check_layer<TypeParam>(9, n, affine, 0);
      if (sizeof(TypeParam) > 2) check_layer<TypeParam>(7, n, affine, 3);
    }
  check_layer<TypeParam>(700, 33, true, 0);
}

template <class T>
void check_group(int64_t batch, int64_t channels, int64_t inner, int64_t groups, bool affine) {
  constexpr DType kType = DTypeOf<T>::value;
  const int64_t n = batch * channels * inner, group = channels / groups * inner;
  const auto x = random_vector<T>(n, 1), dy = random_vector<T>(n, 2), weight = random_vector<T>(channels, 3),
             bias = random_vector<T>(channels, 4);
  const Reference r = reference(
      n, batch * groups, channels, 1e-5, x, dy, affine ? &weight : nullptr, affine ? &bias : nullptr,
      [=](int64_t i) { return i / group; }, [=](int64_t i) { return i / inner % channels; });
  std::vector<T> y(n), dx(n, T(9)), dw(channels, T(9)), db(channels, T(9));
  std::vector<Stat<T>> mean(batch * groups), rstd(mean);
  group_norm_forward(kType, batch, channels, inner, groups, 1e-5, x.data(), affine ? weight.data() : nullptr,
                     affine ? bias.data() : nullptr, y.data(), mean.data(), rstd.data());
  group_norm_backward(kType, batch, channels, inner, groups, dy.data(), x.data(), mean.data(), rstd.data(),
                      affine ? weight.data() : nullptr, dx.data(), dw.data(), db.data());
  expect_near(y, r.y, eps<T>(), "y ");
  expect_near(dx, r.dx, eps<T>() * 3, "dx ");
  expect_near(dw, r.dweight, eps<T>() * 3, "dweight ");
  expect_near(db, r.dbias, eps<T>(), "dbias ");
}
TYPED_TEST(NormTest, Group) {
  for (bool affine : {false, true}) {
    check_group<TypeParam>(3, 6, 11, 2, affine);
    check_group<TypeParam>(2, 8, 1, 2, affine);
    check_group<TypeParam>(5, 4, 40, 4, affine);
    check_group<TypeParam>(4, 12, 100, 1, affine);
  }
}

template <class T, class P>
void check_batch(int64_t batch, int64_t channels, int64_t inner, bool affine) {
  constexpr DType kType = DTypeOf<T>::value, kParam = DTypeOf<P>::value;
  const int64_t n = batch * channels * inner;
  const auto x = random_vector<T>(n, 1, 0.5f), dy = random_vector<T>(n, 2);
  std::vector<T> weight = random_vector<T>(channels, 3), bias = random_vector<T>(channels, 4);
  std::vector<P> w(weight.begin(), weight.end()), b(bias.begin(), bias.end()), dw(channels, P(9)), db(channels, P(9));
  const auto channel = [=](int64_t i) { return i / inner % channels; };
  const Reference r = reference(n, channels, channels, 1e-5, x, dy, affine ? &weight : nullptr,
                                affine ? &bias : nullptr, channel, channel);
  std::vector<double> mean(channels), var(channels), invstd(channels);
  batch_norm_stats(kType, batch, channels, inner, x.data(), mean.data(), var.data());
  for (int64_t c = 0; c < channels; ++c) {
    EXPECT_NEAR(mean[c], r.mean[c], 1e-12);
    EXPECT_NEAR(var[c], r.var[c], 1e-12);
    invstd[c] = 1 / std::sqrt(var[c] + 1e-5);
  }
  std::vector<T> y(n), dx(n, T(9)), dx_eval(n);
  batch_norm_apply(kType, kParam, batch, channels, inner, x.data(), mean.data(), invstd.data(),
                   affine ? w.data() : nullptr, affine ? b.data() : nullptr, y.data());
  expect_near(y, r.y, eps<T>(), "y ");
  batch_norm_backward(kType, kParam, batch, channels, inner, true, dy.data(), x.data(), mean.data(), invstd.data(),
                      affine ? w.data() : nullptr, dx.data(), dw.data(), db.data());
  expect_near(dx, r.dx, eps<T>() * 2, "dx ");
  expect_near(dw, r.dweight, eps<P>() * 2, "dweight ");
  expect_near(db, r.dbias, eps<P>(), "dbias ");
  batch_norm_backward(kType, kParam, batch, channels, inner, false, dy.data(), x.data(), mean.data(), invstd.data(),
                      affine ? w.data() : nullptr, dx_eval.data(), nullptr, nullptr);
  for (int64_t i = 0; i < n; ++i) {
    const double expected = at(dy, i) * invstd[channel(i)] * (affine ? at(weight, channel(i)) : 1);
    ASSERT_NEAR(static_cast<double>(dx_eval[i]), expected, eps<T>() * (1 + std::abs(expected)));
  }
}
template <class T>
void check_batches() {
  using P = Stat<T>;
  for (bool affine : {false, true}) {
    check_batch<T, P>(64, 10, 1, affine);
    check_batch<T, P>(5, 37, 1, affine);
    check_batch<T, P>(9, 5, 7, affine);
    check_batch<T, P>(6, 4, 64, affine);
    check_batch<T, P>(3, 2, 1001, affine);
    check_batch<T, P>(2000, 19, 3, affine);
    check_batch<T, P>(1, 3, 40, affine);
  }
}
TYPED_TEST(NormTest, Batch) { check_batches<TypeParam>(); }
TEST(Norm, BatchWithParametersOfTheSameReducedType) { check_batch<Half, Half>(6, 4, 64, true); }

// A mean far larger than the deviation must not spoil the variance.
TEST(Norm, VarianceFarFromZero) {
  for (int64_t inner : {1, 5, 64}) {
    std::vector<float> x(50 * inner);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 100000.f + static_cast<float>(i % 2);
    double mean, var;
    batch_norm_stats(DType::kFloat32, 50, 1, inner, x.data(), &mean, &var);
    EXPECT_NEAR(mean, 100000.5, 1e-6);
    EXPECT_NEAR(var, 0.25, 1e-9);
  }
}

TEST(Norm, GroupsOfNothingHaveNoGradient) {
  std::vector<float> dw(6, 9.f), db(6, 9.f), mean(4, NAN), rstd(4, NAN);
  group_norm_backward(DType::kFloat32, 2, 6, 0, 2, nullptr, nullptr, mean.data(), rstd.data(), nullptr, nullptr,
                      dw.data(), db.data());
  for (int c = 0; c < 6; ++c) {
    EXPECT_EQ(dw[c], 0.f);
    EXPECT_EQ(db[c], 0.f);
  }
}

// Results past the caches are those of small pieces.
TEST(Norm, Large) {
  const int64_t rows = 2100, n = 2051;
  const auto x = random_vector<float>(rows * n, 1), w = random_vector<float>(n, 2);
  std::vector<float> y(rows * n), part(n), mean(rows), rstd(rows);
  layer_norm_forward(DType::kFloat32, rows, n, 1e-5, x.data(), w.data(), nullptr, y.data(), mean.data(), rstd.data());
  for (int64_t r = 0; r < rows; r += 99) {
    layer_norm_forward(DType::kFloat32, 1, n, 1e-5, x.data() + r * n, w.data(), nullptr, part.data(), mean.data(),
                       rstd.data());
    ASSERT_EQ(std::memcmp(part.data(), y.data() + r * n, n * sizeof(float)), 0);
  }
}

TEST(Norm, SameBitsAtAnyThreadCount) {
  const int before = num_threads();
  const int64_t rows = 4000, n = 24;
  const auto x = random_vector<float>(rows * n, 1), dy = random_vector<float>(rows * n, 2);
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<float> mean(rows), rstd(rows), out(rows * n + 2 * n + 4 * n), y(rows * n);
    layer_norm_forward(DType::kFloat32, rows, n, 1e-5, x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data());
    float* p = out.data() + rows * n;
    layer_norm_backward(DType::kFloat32, rows, n, dy.data(), x.data(), mean.data(), rstd.data(), nullptr, out.data(), p,
                        p + n);
    std::vector<double> m(n), v(n);
    batch_norm_stats(DType::kFloat32, rows, n, 1, x.data(), m.data(), v.data());
    for (int64_t i = 0; i < n; ++i) {
      p[2 * n + i] = static_cast<float>(m[i]);
      p[3 * n + i] = static_cast<float>(v[i]);
    }
    batch_norm_backward(DType::kFloat32, DType::kFloat32, rows, n, 1, true, dy.data(), x.data(), m.data(), v.data(),
                        nullptr, y.data(), p + 4 * n, p + 5 * n);
    if (first.empty()) first = out;
    EXPECT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0);
  }
  set_num_threads(before);
}

TEST(Norm, BadDtype) {
  int64_t x = 0;
  EXPECT_THROW(layer_norm_forward(DType::kInt64, 1, 1, 0, &x, nullptr, nullptr, &x, &x, &x), NotImplementedError);
  double m;
  EXPECT_THROW(batch_norm_stats(DType::kComplex64, 1, 1, 1, &x, &m, &m), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cpu
