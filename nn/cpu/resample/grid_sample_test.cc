#include "nn/cpu/resample/grid_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tessera::cpu {
namespace {

std::vector<double> numbers(int64_t n, uint32_t seed, double scale) {
  std::mt19937 rng(seed);
  std::vector<double> v(n);
  for (double& x : v) x = (static_cast<double>(rng() % 2001) / 1000 - 1) * scale;
  return v;
}

double reflected(double u, double low, double high) {
  if (low == high) return 0;
  while (u < low || u > high) u = u < low ? 2 * low - u : 2 * high - u;
  return u;
}
double padded(const GridSample& g, int64_t size, double u) {
  if (g.padding == GridPadding::kReflection)
    u = g.align_corners ? reflected(u, 0, size - 1) : reflected(u, -0.5, size - 0.5);
  return g.padding == GridPadding::kZeros ? u : std::min(std::max(u, 0.0), size - 1.0);
}
double cubic(double d) {
  d = std::abs(d);
  const double a = -0.75;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Pixels of one dimension and their weights, by definition.
std::vector<std::pair<int64_t, double>> parts(const GridSample& g, int64_t size, double c) {
  double u = g.align_corners ? (c + 1) / 2 * (size - 1) : ((c + 1) * size - 1) / 2;
  std::vector<std::pair<int64_t, double>> r;
  if (g.mode != GridMode::kCubic) u = padded(g, size, u);
  if (g.mode == GridMode::kNearest) return {{static_cast<int64_t>(std::nearbyint(u)), 1}};
  const int64_t low = static_cast<int64_t>(std::floor(u));
  if (g.mode == GridMode::kLinear) return {{low, low + 1 - u}, {low + 1, u - low}};
  for (int64_t k = low - 1; k <= low + 2; ++k)
    r.push_back({static_cast<int64_t>(padded(g, size, static_cast<double>(k))), cubic(u - k)});
  return r;
}

std::vector<double> expected(const GridSample& g, const std::vector<double>& x, const std::vector<double>& grid) {
  const int64_t volume = g.in[0] * g.in[1] * g.in[2];
  std::vector<double> y(g.batch * g.channels * g.positions);
  const auto has = [&](int d, int64_t i) { return i >= 0 && i < g.in[d]; };
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t p = 0; p < g.positions; ++p) {
      const double* const at = grid.data() + (n * g.positions + p) * g.dims;
      const auto depth = g.dims == 3 ? parts(g, g.in[0], at[2]) : std::vector<std::pair<int64_t, double>>{{0, 1}};
      for (const auto& [a, wa] : depth)
        for (const auto& [b, wb] : parts(g, g.in[1], at[1]))
          for (const auto& [c, wc] : parts(g, g.in[2], at[0]))
            if (has(0, a) && has(1, b) && has(2, c))
              for (int64_t ch = 0; ch < g.channels; ++ch)
                y[(n * g.channels + ch) * g.positions + p] +=
                    wa * wb * wc * x[(n * g.channels + ch) * volume + (a * g.in[1] + b) * g.in[2] + c];
    }
  return y;
}

template <class A>
void compare(const GridSample& g, double tolerance) {
  const DType dtype = sizeof(A) == 4 ? DType::kFloat32 : DType::kFloat64;
  const int64_t volume = g.in[0] * g.in[1] * g.in[2], outputs = g.batch * g.channels * g.positions;
  const auto x = numbers(g.batch * g.channels * volume, 1, 1), grid = numbers(g.batch * g.positions * g.dims, 2, 1.7);
  const auto dy = numbers(outputs, 3, 1);
  const std::vector<A> x_(x.begin(), x.end()), grid_(grid.begin(), grid.end()), dy_(dy.begin(), dy.end());
  std::vector<A> y(outputs), dx(x.size()), dgrid(grid.size());
  grid_sample_forward(dtype, g, x_.data(), grid_.data(), y.data());
  const auto wanted = expected(g, x, grid);
  for (int64_t i = 0; i < outputs; ++i) ASSERT_NEAR(y[i], wanted[i], tolerance) << i;
  grid_sample_backward(dtype, g, dy_.data(), x_.data(), grid_.data(), dx.data(), dgrid.data());
  // Linear in x: <dy, y> = <dx, x>.
  double forward = 0, back = 0;
  for (int64_t i = 0; i < outputs; ++i) forward += dy[i] * wanted[i];
  for (size_t i = 0; i < x.size(); ++i) back += x[i] * dx[i];
  EXPECT_NEAR(forward, back, tolerance * static_cast<double>(outputs));
  if (sizeof(A) == 4) return;
  // By differences. A number of the grid moves the outputs of its place alone.
  const double eps = 1e-6;
  for (int e = 0; e < g.dims; ++e) {
    auto up = grid, down = grid;
    for (size_t i = static_cast<size_t>(e); i < grid.size(); i += static_cast<size_t>(g.dims))
      up[i] += eps, down[i] -= eps;
    const auto above = expected(g, x, up), below = expected(g, x, down);
    for (int64_t n = 0; n < g.batch; ++n)
      for (int64_t p = 0; p < g.positions; ++p) {
        double sum = 0;
        bool smooth = true;
        for (int64_t c = 0; c < g.channels; ++c) {
          const int64_t i = (n * g.channels + c) * g.positions + p;
          const double rise = above[i] - wanted[i], fall = wanted[i] - below[i];
          smooth = smooth && std::abs(rise - fall) < 1e-9;
          sum += dy[i] * (above[i] - below[i]) / (2 * eps);
        }
        if (smooth) { EXPECT_NEAR(dgrid[(n * g.positions + p) * g.dims + e], sum, 1e-5) << e << " " << n << " " << p; }
      }
  }
}

TEST(GridSample, FollowsTheDefinition) {
  for (GridMode mode : {GridMode::kLinear, GridMode::kNearest, GridMode::kCubic})
    for (GridPadding padding : {GridPadding::kZeros, GridPadding::kBorder, GridPadding::kReflection})
      for (bool align : {false, true})
        for (int64_t channels : {1, 3, 5, 70}) {
          SCOPED_TRACE(testing::Message() << int(mode) << " " << int(padding) << " " << align << " " << channels);
          const GridSample plane{mode, padding, align, 2, 2, channels, {1, 5, 7}, 150, {0, 0, 0}};
          compare<double>(plane, 1e-12);
          compare<float>(plane, 2e-4);
          compare<double>({mode, padding, align, 2, 1, channels, {1, 1, 1}, 20, {0, 0, 0}}, 1e-12);
          if (mode != GridMode::kCubic)
            compare<double>({mode, padding, align, 3, 2, channels, {3, 4, 5}, 40, {}}, 1e-12);
        }
}

// The weights' derivatives of higher order are differences of those of lower order.
TEST(GridSample, OrdersAreDerivatives) {
  for (GridMode mode : {GridMode::kLinear, GridMode::kCubic}) {
    GridSample g{mode, GridPadding::kReflection, false, 2, 1, 2, {1, 6, 5}, 30, {1, 0, 0}};
    const auto x = numbers(60, 1, 1), grid = numbers(60, 5, 1.3);
    auto moved = grid;
    for (size_t i = 1; i < grid.size(); i += 2) moved[i] += 1e-6;
    std::vector<double> a(60), b(60), slope(60);
    grid_sample_forward(DType::kFloat64, g, x.data(), grid.data(), a.data());
    grid_sample_forward(DType::kFloat64, g, x.data(), moved.data(), b.data());
    g.order[1] = 1;
    grid_sample_forward(DType::kFloat64, g, x.data(), grid.data(), slope.data());
    int compared = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (std::abs((b[i] - a[i]) * 1e6 - slope[i]) < 1e-3) ++compared;
    EXPECT_GE(compared, 56) << int(mode);  // but where a place is at a pixel's edge
  }
}

TEST(GridSample, PlacesThatAreNoNumbersOrFarAway) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> grid{nan, nan, inf, 0, -inf, -inf, 1e300, 1e300, -1, -1};
  const std::vector<double> x = numbers(12, 1, 1);
  for (GridMode mode : {GridMode::kLinear, GridMode::kNearest, GridMode::kCubic})
    for (GridPadding padding : {GridPadding::kZeros, GridPadding::kBorder, GridPadding::kReflection}) {
      const GridSample g{mode, padding, true, 2, 1, 1, {1, 3, 4}, 5, {0, 0, 0}};
      std::vector<double> y(5), dx(12), dgrid(10), dy(5, 1);
      grid_sample_forward(DType::kFloat64, g, x.data(), grid.data(), y.data());
      EXPECT_EQ(y[0], y[4]);
      if (padding == GridPadding::kZeros) {
        EXPECT_EQ(y[1], 0);
        EXPECT_EQ(y[3], 0);
      }
      for (double v : y) EXPECT_TRUE(std::isfinite(v));
      grid_sample_backward(DType::kFloat64, g, dy.data(), x.data(), grid.data(), dx.data(), dgrid.data());
      for (double v : dgrid) EXPECT_TRUE(std::isfinite(v));
    }
}

}  // namespace
}  // namespace tessera::cpu
