// The rule by which images are resized, for the engines of every device: which input positions an output is a sum of,
// and with which weights. What is here is also called in device code, whose compiler takes constexpr functions for its
// own.
#pragma once

#include <cmath>
#include <cstdint>

#include "nn/cpu/resample/resample.h"

namespace tessera::cpu {

// One dimension.
struct ResampleLine {
  ResampleMode mode;
  bool align_corners;
  bool identity;  // every output is its input
  int64_t in, out;
  double by;  // where input positions go by from one output to the next
};

constexpr bool is_antialias(ResampleMode mode) {
  return mode == ResampleMode::kLinearAntialias || mode == ResampleMode::kCubicAntialias;
}
// How many inputs an output is made of; of the antialiasing modes the sizes decide.
constexpr int tap_count(ResampleMode mode) {
  return mode == ResampleMode::kCubic ? 4 : mode == ResampleMode::kLinear ? 2 : 1;
}

inline ResampleLine line_of(const ResampleGeometry& g, int dim) {
  const int64_t in = g.in[dim], out = g.out[dim];
  const double step = g.step[dim];
  const bool nearest = g.mode == ResampleMode::kNearest || g.mode == ResampleMode::kNearestExact,
             cubic = g.mode == ResampleMode::kCubic || g.mode == ResampleMode::kCubicAntialias;
  ResampleLine l{g.mode, g.align_corners, in == out && !cubic && (g.align_corners || step == 0 || step == 1), in, out,
                 0};
  if (g.align_corners && !nearest)
    l.by = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  else
    l.by = step != 0 ? step : static_cast<double>(in) / static_cast<double>(out);
  return l;
}

// The weights of cubic convolution (R. Keys, "Cubic convolution interpolation for digital image processing", IEEE
// Trans. ASSP 29, 1981) at fraction t, with a = -0.75.
template <class A>
constexpr A keys_near(A d) {
  return ((A(-0.75) + 2) * d - (A(-0.75) + 3)) * d * d + 1;
}
template <class A>
constexpr A keys_far(A d) {
  return ((A(-0.75) * d - 5 * A(-0.75)) * d + 8 * A(-0.75)) * d - 4 * A(-0.75);
}

// The first input position and the weights of output o, tap_count of them; positions beyond the ends stand for the
// ends. Computed in A: float for float and half dtypes, else double.
template <class A>
constexpr int64_t taps_at(const ResampleLine& l, int64_t o, A* w) {
  if (l.mode == ResampleMode::kNearest || l.mode == ResampleMode::kNearestExact) {
    const float at = static_cast<float>(o) + (l.mode == ResampleMode::kNearestExact ? 0.5f : 0.0f);
    w[0] = 1;
    return static_cast<int64_t>(std::floor(at * static_cast<float>(l.by)));
  }
  A at = l.align_corners ? static_cast<A>(o) * static_cast<A>(l.by)
                         : (static_cast<A>(o) + A(0.5)) * static_cast<A>(l.by) - A(0.5);
  if (l.mode == ResampleMode::kCubic) {
    const A low = std::floor(at), t = at - low;
    w[0] = keys_far(t + 1);
    w[1] = keys_near(t);
    w[2] = keys_near(1 - t);
    w[3] = keys_far(2 - t);
    return static_cast<int64_t>(low) - 1;
  }
  at = at > A(0) ? at : A(0);
  const int64_t below = static_cast<int64_t>(at), low = below < l.in - 1 ? below : l.in - 1;
  w[1] = at - static_cast<A>(low);
  w[0] = 1 - w[1];
  return low;
}

// The antialiasing modes: a filter that is as wide as the inputs that an output stands for, as Pillow's: a triangle, or
// Keys' cubic with a = -0.5. Output o is the sum over [first, last); the weights divided by their sum add up to 1.
struct FilterSpan {
  int64_t first, last;
};
constexpr double filter_width(const ResampleLine& l) { return l.by > 1.0 ? l.by : 1.0; }
constexpr double filter_center(const ResampleLine& l, int64_t o) { return l.by * (static_cast<double>(o) + 0.5); }
constexpr FilterSpan filter_span(const ResampleLine& l, int64_t o) {
  const double reach = (l.mode == ResampleMode::kCubicAntialias ? 2 : 1) * filter_width(l),
               center = filter_center(l, o);
  const int64_t first = static_cast<int64_t>(center - reach + 0.5), last = static_cast<int64_t>(center + reach + 0.5);
  return {first > 0 ? first : 0, last < l.in ? last : l.in};
}
constexpr double filter_weight(const ResampleLine& l, int64_t o, int64_t i) {
  const double from = (static_cast<double>(i) - filter_center(l, o) + 0.5) / filter_width(l),
               d = from < 0 ? -from : from;
  if (l.mode == ResampleMode::kLinearAntialias) return d < 1 ? 1 - d : 0;
  return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
}

}  // namespace tessera::cpu
