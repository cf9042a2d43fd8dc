#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "nn/cpu/pool.h"

namespace tessera::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
int64_t product(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

struct Spatial {
  int64_t in, kernel, stride, padding, dilation;
  bool ceil = false;
};
PoolGeometry geometry(int64_t planes, Spatial d, Spatial h, Spatial w) {
  PoolGeometry g{planes, {}, {}, {}, {}, {}, {}};
  const Spatial s[3] = {d, h, w};
  for (int i = 0; i < 3; ++i) {
    g.in_size[i] = s[i].in;
    g.kernel[i] = s[i].kernel;
    g.stride[i] = s[i].stride;
    g.padding[i] = s[i].padding;
    g.dilation[i] = s[i].dilation;
    const int64_t room = s[i].in + 2 * s[i].padding - s[i].dilation * (s[i].kernel - 1) - 1;
    int64_t out = (room + (s[i].ceil ? s[i].stride - 1 : 0)) / s[i].stride + 1;
    if (s[i].ceil && (out - 1) * s[i].stride >= s[i].in + s[i].padding)
      --out;  // the last window starts in the input or the left padding
    g.out_size[i] = out;
  }
  return g;
}
constexpr Spatial kOne{1, 1, 1, 0, 1};

template <class T>
std::vector<T> random_vector(int64_t n, int seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (auto& x : v)
    x = std::is_integral_v<T> ? static_cast<T>(rng() % 100)
                              : static_cast<T>(std::uniform_real_distribution<float>(-1, 1)(rng));
  return v;
}

// Calls fn(plane, output position, input position) for every element of every window, in order.
template <class F>
void for_windows(const PoolGeometry& g, F&& fn) {
  for (int64_t plane = 0; plane < g.planes; ++plane)
    for (int64_t o = 0; o < product(g.out_size); ++o)
      for (int64_t t = 0; t < product(g.kernel); ++t) {
        const int64_t q[3] = {o / (g.out_size[1] * g.out_size[2]), o / g.out_size[2] % g.out_size[1],
                              o % g.out_size[2]};
        const int64_t k[3] = {t / (g.kernel[1] * g.kernel[2]), t / g.kernel[2] % g.kernel[1], t % g.kernel[2]};
        int64_t at = 0;
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
          const int64_t pos = q[i] * g.stride[i] - g.padding[i] + k[i] * g.dilation[i];
          inside &= pos >= 0 && pos < g.in_size[i];
          at = at * g.in_size[i] + pos;
        }
        if (inside) fn(plane, o, at);
      }
}

std::vector<PoolGeometry> geometries(bool dilated) {
  const int64_t two = dilated ? 2 : 1;
  return {
      geometry(3, kOne, {6, 2, 2, 0, 1}, {8, 2, 2, 0, 1}),
      geometry(3, kOne, {7, 3, 2, 1, 1}, {9, 3, 1, 1, two}),
      geometry(3, kOne, {7, 3, 2, 1, 1, true}, {8, 3, 2, 0, 1, true}),
      geometry(2, {5, 2, 2, 1, 1, true}, {6, 3, 2, 1, two}, {7, 2, 1, 0, 1}),
      geometry(3, kOne, {9, 3, 1, 1, two}, {7, 3, 1, 1, two}),
      geometry(5, kOne, kOne, {40, 5, 3, 2, 1, true}),
      geometry(70, kOne, {30, 3, 1, 1, 1}, {33, 3, 1, 1, 1}),
  };
}

template <class T>
class PoolTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16, uint8_t, int8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(PoolTest, Types);

TYPED_TEST(PoolTest, MaxMatchesTheDefinition) {
  using T = TypeParam;
  for (const auto& g : geometries(true)) {
    const int64_t in = product(g.in_size), out = product(g.out_size);
    const auto x = random_vector<T>(g.planes * in, 1), dy = random_vector<T>(g.planes * out, 2);
    std::vector<int64_t> expected(g.planes * out, -1), index(expected.size());
    for_windows(g, [&](int64_t p, int64_t o, int64_t i) {
      int64_t& best = expected[p * out + o];
      if (best < 0 || x[p * in + i] > x[p * in + best]) best = i;
    });
    std::vector<T> y(expected.size()), y2(y), dx(x.size(), T(9));
    max_pool_forward(DTypeOf<T>::value, g, x.data(), y.data(), index.data());
    max_pool_forward(DTypeOf<T>::value, g, x.data(), y2.data(), nullptr);
    EXPECT_EQ(index, expected);
    std::vector<double> edx(x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], x[i / out * in + expected[i]]);
      ASSERT_EQ(y2[i], y[i]);
      edx[i / out * in + expected[i]] += static_cast<double>(dy[i]);
    }
    max_pool_backward(DTypeOf<T>::value, g.planes, in, out, dy.data(), index.data(), dx.data());
    for (size_t i = 0; i < dx.size(); ++i) {
      if constexpr (std::is_integral_v<T>)
        ASSERT_EQ(dx[i], static_cast<T>(static_cast<int64_t>(edx[i])));
      else
        ASSERT_NEAR(static_cast<double>(dx[i]), edx[i], std::abs(edx[i]) * (sizeof(T) == 2 ? 8e-3 : 1e-6) + 1e-6);
    }
  }
}

TEST(Pool, MaxOfNanInfinitiesAndTies) {
  const PoolGeometry g = geometry(1, kOne, kOne, {8, 2, 2, 0, 1});
  const std::vector<float> x = {1, kNan, kNan, 2, -kInf, -kInf, 3, 3};
  std::vector<float> y(4);
  std::vector<int64_t> index(4);
  max_pool_forward(DType::kFloat32, g, x.data(), y.data(), index.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(index[0], 1);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(index[1], 2);
  EXPECT_EQ(y[2], -kInf);
  EXPECT_EQ(index[2], 4);
  EXPECT_EQ(y[3], 3);
  EXPECT_EQ(index[3], 6);  // the first of equals
}

TYPED_TEST(PoolTest, AverageMatchesTheDefinition) {
  using T = TypeParam;
  if constexpr (!std::is_integral_v<T>) {
    for (const auto& g : geometries(false))
      for (bool include_pad : {false, true})
        for (int64_t override_value : {0, 3}) {
          const int64_t in = product(g.in_size), out = product(g.out_size);
          const auto x = random_vector<T>(g.planes * in, 1), dy = random_vector<T>(g.planes * out, 2);
          std::vector<double> sum(g.planes * out), count(sum.size()), edx(x.size());
          for_windows(g, [&](int64_t p, int64_t o, int64_t i) {
            sum[p * out + o] += static_cast<double>(x[p * in + i]);
            count[p * out + o] += 1;
          });
          if (include_pad)  // the window's size, cut at size + padding
            for (size_t i = 0; i < count.size(); ++i) {
              const int64_t o = i % out, q[3] = {o / (g.out_size[1] * g.out_size[2]), o / g.out_size[2] % g.out_size[1],
                                                 o % g.out_size[2]};
              count[i] = 1;
              for (int k = 0; k < 3; ++k) {
                const int64_t start = q[k] * g.stride[k] - g.padding[k];
                count[i] *= static_cast<double>(std::min(start + g.kernel[k], g.in_size[k] + g.padding[k]) - start);
              }
            }
          if (override_value) count.assign(count.size(), static_cast<double>(override_value));
          for_windows(g, [&](int64_t p, int64_t o, int64_t i) {
            edx[p * in + i] += static_cast<double>(dy[p * out + o]) / count[p * out + o];
          });
          std::vector<T> y(sum.size()), dx(x.size(), T(9));
          avg_pool_forward(DTypeOf<T>::value, g, include_pad, override_value, x.data(), y.data());
          avg_pool_backward(DTypeOf<T>::value, g, include_pad, override_value, dy.data(), dx.data());
          const double eps = sizeof(T) == 2 ? 8e-3 : 2e-6;
          for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(static_cast<double>(y[i]), sum[i] / count[i], eps);
          for (size_t i = 0; i < dx.size(); ++i)
            ASSERT_NEAR(static_cast<double>(dx[i]), edx[i], eps * (1 + std::abs(edx[i])));
        }
  }
}

TYPED_TEST(PoolTest, AdaptiveMatchesTheDefinition) {
  using T = TypeParam;
  const int64_t cases[][6] = {
      {1, 7, 8, 1, 3, 5}, {1, 8, 8, 1, 1, 1}, {5, 6, 7, 2, 6, 3}, {1, 3, 2, 1, 5, 7}, {1, 1, 9, 1, 1, 4}};
  for (const auto& c : cases) {
    const int64_t planes = 3, in[3] = {c[0], c[1], c[2]}, out[3] = {c[3], c[4], c[5]};
    const int64_t in_n = product(in), out_n = product(out);
    const auto x = random_vector<T>(planes * in_n, 1), dy = random_vector<T>(planes * out_n, 2);
    std::vector<T> y(planes * out_n), dx(x.size(), T(9)), max(y);
    std::vector<int64_t> index(y.size());
    adaptive_avg_pool_forward(DTypeOf<T>::value, planes, in, out, x.data(), y.data());
    adaptive_max_pool_forward(DTypeOf<T>::value, planes, in, out, x.data(), max.data(), index.data());
    adaptive_avg_pool_backward(DTypeOf<T>::value, planes, in, out, dy.data(), dx.data());
    std::vector<double> edx(x.size());
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t o = 0; o < out_n; ++o) {
        const int64_t q[3] = {o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
        int64_t begin[3], end[3], best = -1, count = 1;
        for (int i = 0; i < 3; ++i) {
          begin[i] = q[i] * in[i] / out[i];
          end[i] = ((q[i] + 1) * in[i] + out[i] - 1) / out[i];
          count *= end[i] - begin[i];
        }
        double sum = 0;
        for (int64_t d = begin[0]; d < end[0]; ++d)
          for (int64_t h = begin[1]; h < end[1]; ++h)
            for (int64_t w = begin[2]; w < end[2]; ++w) {
              const int64_t at = (d * in[1] + h) * in[2] + w;
              sum += static_cast<double>(x[p * in_n + at]);
              edx[p * in_n + at] += std::is_integral_v<T>
                                        ? static_cast<double>(static_cast<int64_t>(dy[p * out_n + o]) / count)
                                        : static_cast<double>(dy[p * out_n + o]) / static_cast<double>(count);
              if (best < 0 || x[p * in_n + at] > x[p * in_n + best]) best = at;
            }
        ASSERT_EQ(index[p * out_n + o], best);
        ASSERT_EQ(max[p * out_n + o], x[p * in_n + best]);
        if (!std::is_integral_v<T>) {
          ASSERT_NEAR(static_cast<double>(y[p * out_n + o]), sum / static_cast<double>(count),
                      sizeof(T) == 2 ? 4e-3 : 1e-6);
        }
      }
    for (size_t i = 0; i < dx.size() && !std::is_integral_v<T>; ++i)
      ASSERT_NEAR(static_cast<double>(dx[i]), edx[i], (sizeof(T) == 2 ? 8e-3 : 1e-6) * (1 + std::abs(edx[i])));
  }
}

TEST(Pool, BadDtype) {
  const PoolGeometry g = geometry(1, kOne, kOne, kOne);
  bool x = true;
  EXPECT_THROW(max_pool_forward(DType::kBool, g, &x, &x, nullptr), NotImplementedError);
  EXPECT_THROW(avg_pool_forward(DType::kComplex64, g, true, 0, &x, &x), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cpu
