// How a coordinate of a grid becomes pixels and weights along one dimension, for the engines of every device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nn/cpu/resample/grid_sample.h"

namespace tessera::cpu {

// Tap k is `first` + k pixels from the one below the place, its weight a polynomial of the fraction that the place is
// above that one.
struct GridAxis {
  int64_t size;
  GridMode mode;
  GridPadding padding;
  double scale, shift;     // from a coordinate of the grid to one in pixels
  double low, span;        // what reflection keeps within
  int taps, first, order;  // order: how many factors of the coordinate's derivative the weights have
  double weight[4][4], slope[4][4];
};

namespace internal {

// Weights as polynomials of the fraction t. The cubic ones are those of Keys with a = -0.75 (nn/cpu/resample/taps.h),
// multiplied out.
inline constexpr double kLinearWeights[2][4] = {{1, -1, 0, 0}, {0, 1, 0, 0}};
inline constexpr double kKeys = -0.75;
inline constexpr double kCubicWeights[4][4] = {{0, kKeys, -2 * kKeys, kKeys},
                                               {1, 0, -(kKeys + 3), kKeys + 2},
                                               {0, -kKeys, 2 * kKeys + 3, -(kKeys + 2)},
                                               {0, 0, kKeys, -kKeys}};

inline void differentiate(double (&c)[4]) {
  for (int k = 0; k < 3; ++k) c[k] = (k + 1) * c[k + 1];
  c[3] = 0;
}

}  // namespace internal

// dim: 0, 1, 2 for x, y, z.
inline GridAxis axis_of(const GridSample& g, int dim) {
  const int64_t size = g.in[2 - dim];
  GridAxis a{};
  a.size = size;
  a.mode = g.mode;
  a.padding = g.padding;
  a.scale = g.align_corners ? (size - 1) / 2.0 : size / 2.0;
  a.shift = g.align_corners ? 0 : -0.5;
  a.low = g.align_corners ? 0 : -0.5;
  a.span = static_cast<double>(g.align_corners ? size - 1 : size);
  a.taps = g.mode == GridMode::kNearest ? 1 : g.mode == GridMode::kLinear ? 2 : 4;
  a.first = g.mode == GridMode::kCubic ? -1 : 0;
  a.order = g.order[dim];
  for (int k = 0; k < a.taps; ++k) {
    double one[4] = {1, 0, 0, 0};
    const double* const from = g.mode == GridMode::kNearest  ? one
                               : g.mode == GridMode::kLinear ? internal::kLinearWeights[k]
                                                             : internal::kCubicWeights[k];
    std::copy(from, from + 4, a.weight[k]);
    for (int n = 0; n < a.order; ++n) internal::differentiate(a.weight[k]);
    std::copy(a.weight[k], a.weight[k] + 4, a.slope[k]);
    internal::differentiate(a.slope[k]);
  }
  return a;
}

}  // namespace tessera::cpu
