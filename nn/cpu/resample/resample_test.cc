#include "nn/cpu/resample/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

int64_t volume(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

std::vector<double> numbers(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<double> v(n);
  for (double& x : v) x = static_cast<double>(rng() % 2001) / 1000 - 1;
  return v;
}

// What resizing of one dimension adds up, by definition: (input, weight) of output o.
std::vector<std::pair<int64_t, double>> parts(const ResampleGeometry& g, int d, int64_t o) {
  const int64_t in = g.in[d], out = g.out[d];
  const double step = g.step[d] != 0 ? g.step[d] : static_cast<double>(in) / out;
  const auto inside = [&](double i) { return std::clamp<int64_t>(static_cast<int64_t>(i), 0, in - 1); };
  if (g.mode == ResampleMode::kNearest) return {{inside(std::floor(o * step)), 1}};
  if (g.mode == ResampleMode::kNearestExact) return {{inside(std::floor((o + 0.5) * step)), 1}};
  if (g.mode == ResampleMode::kLinearAntialias || g.mode == ResampleMode::kCubicAntialias) {
    // A filter as wide as the inputs that an output stands for.
    const double by = g.align_corners ? (out > 1 ? static_cast<double>(in - 1) / (out - 1) : 0) : step,
                 width = std::max(by, 1.0), center = by * (o + 0.5), a = -0.5;
    const double reach = g.mode == ResampleMode::kLinearAntialias ? width : 2 * width;
    std::vector<std::pair<int64_t, double>> r;
    double total = 0;
    for (int64_t i = std::max<int64_t>(static_cast<int64_t>(center - reach + 0.5), 0);
         i < std::min<int64_t>(static_cast<int64_t>(center + reach + 0.5), in); ++i) {
      const double x = std::abs(i + 0.5 - center) / width;
      double w = std::max(1 - x, 0.0);
      if (g.mode == ResampleMode::kCubicAntialias)
        w = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x <= 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
      r.push_back({i, w});
      total += w;
    }
    for (auto& part : r) part.second /= total;
    return r;
  }
  double at = g.align_corners ? (out > 1 ? o * static_cast<double>(in - 1) / (out - 1) : 0) : (o + 0.5) * step - 0.5;
  if (g.mode == ResampleMode::kLinear) {
    at = std::max(at, 0.0);
    const double low = std::min(std::floor(at), in - 1.0);
    return {{inside(low), 1 - (at - low)}, {inside(low + 1), at - low}};
  }
  std::vector<std::pair<int64_t, double>> r;
  const double low = std::floor(at), a = -0.75;
  for (int k = -1; k <= 2; ++k) {
    const double x = std::abs(at - low - k);
    r.push_back(
        {inside(low + k), x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a});
  }
  return r;
}

// y from x, or with `adjoint` dx from dy, in double precision.
std::vector<double> expected(const ResampleGeometry& g, const std::vector<double>& from, bool adjoint) {
  std::vector<double> to(g.planes * (adjoint ? volume(g.in) : volume(g.out)));
  for (int64_t p = 0; p < g.planes; ++p)
    for (int64_t i = 0; i < volume(g.out); ++i)
      for (const auto& [a, wa] : parts(g, 0, i / (g.out[1] * g.out[2])))
        for (const auto& [b, wb] : parts(g, 1, i / g.out[2] % g.out[1]))
          for (const auto& [c, wc] : parts(g, 2, i % g.out[2])) {
            const int64_t y = p * volume(g.out) + i, x = p * volume(g.in) + (a * g.in[1] + b) * g.in[2] + c;
            to[adjoint ? x : y] += wa * wb * wc * from[adjoint ? y : x];
          }
  return to;
}

template <class T>
void check(const ResampleGeometry& g, double tolerance) {
  for (const bool adjoint : {false, true}) {
    const int64_t in = g.planes * volume(g.in), out = g.planes * volume(g.out);
    const std::vector<double> from = numbers(adjoint ? out : in, 7);
    const std::vector<T> source(from.begin(), from.end());
    std::vector<T> result(adjoint ? in : out), again(result.size());
    const auto run = [&](std::vector<T>& to) {
      (adjoint ? resample_backward : resample_forward)(DTypeOf<T>::value, g, source.data(), to.data());
    };
    set_num_threads(1);
    run(result);
    set_num_threads(2);
    run(again);
    const std::vector<double> want = expected(g, from, adjoint);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(result[i]), want[i], tolerance) << "element " << i << " adjoint " << adjoint;
      ASSERT_EQ(result[i], again[i]);
    }
  }
}

TEST(ResampleTest, AllModesAgainstTheDefinition) {
  const int64_t sizes[][6] = {{1, 1, 5, 1, 1, 13},  {1, 8, 8, 1, 16, 16},   {1, 33, 70, 1, 20, 31},
                              {1, 7, 40, 1, 7, 80}, {1, 300, 3, 1, 600, 5}, {3, 4, 5, 6, 9, 4},
                              {1, 1, 1, 1, 4, 17},  {4, 6, 33, 4, 3, 66},   {1, 20, 200, 1, 41, 9}};
  for (const auto& s : sizes)
    for (const ResampleMode mode :
         {ResampleMode::kNearest, ResampleMode::kNearestExact, ResampleMode::kLinear, ResampleMode::kCubic,
          ResampleMode::kLinearAntialias, ResampleMode::kCubicAntialias})
      for (const bool align : {false, true}) {
        const ResampleGeometry g{mode, align, 3, {s[0], s[1], s[2]}, {s[3], s[4], s[5]}, {}};
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << " align " << align << " of " << s[0]
                                        << "x" << s[1] << "x" << s[2] << " to " << s[3] << "x" << s[4] << "x" << s[5]);
        if ((mode == ResampleMode::kCubic || mode >= ResampleMode::kLinearAntialias) && s[0] != s[3]) continue;
        check<double>(g, 1e-10);
        // Positions in float fall on the other side of an integer now and then, where nearest has a jump.
        if (mode >= ResampleMode::kLinear) check<float>(g, 2e-3);
      }
}

TEST(ResampleTest, StepsAreTaken) {
  ResampleGeometry g{ResampleMode::kLinear, false, 2, {1, 9, 11}, {1, 20, 24}, {0, 0.45, 0.47}};
  check<double>(g, 1e-10);
}

}  // namespace
}  // namespace tessera::cpu
