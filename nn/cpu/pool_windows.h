// The windows of pooling, for the engines of every device. What is here is also called in device code, whose compiler
// takes constexpr functions for its own.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "nn/cpu/pool.h"

namespace tessera::cpu {

// Windows along one dimension: adaptive ones cut the input evenly, others start at o * stride - padding.
struct PoolLine {
  int64_t in, out, kernel, stride, padding, dilation;
  bool adaptive;
};
struct PoolWindows {
  PoolLine line[3];
  int64_t planes, in_plane, out_plane;
};

inline PoolWindows windows_of(const PoolGeometry& g) {
  PoolWindows w{{}, g.planes, 1, 1};
  for (int i = 0; i < 3; ++i) {
    w.line[i] = {g.in_size[i], g.out_size[i], g.kernel[i], g.stride[i], g.padding[i], g.dilation[i], false};
    w.in_plane *= g.in_size[i];
    w.out_plane *= g.out_size[i];
  }
  return w;
}
inline PoolWindows adaptive_windows(int64_t planes, const int64_t in[3], const int64_t out[3]) {
  PoolWindows w{{}, planes, 1, 1};
  for (int i = 0; i < 3; ++i) {
    w.line[i] = {in[i], out[i], 1, 1, 0, 1, true};
    w.in_plane *= in[i];
    w.out_plane *= out[i];
  }
  return w;
}

// The part of a window that lies in the input: begin, begin + dilation ... < end; span is its length with padding.
struct PoolWindow {
  int64_t begin, end, span;
  constexpr bool empty() const { return end <= begin; }
};

// quotient(a, b): a / b for numbers that are not negative, as is quickest on the device.
template <class Quotient>
constexpr PoolWindow window_of(const PoolLine& l, int64_t o, Quotient quotient) {
  if (l.adaptive) {
    // [floor(o in / out), ceil((o + 1) in / out)), the whole part of in / out apart so that products stay small.
    const int64_t q = quotient(l.in, l.out), r = l.in - q * l.out;
    const int64_t begin = o * q + quotient(o * r, l.out), end = (o + 1) * q + quotient((o + 1) * r + l.out - 1, l.out);
    return {begin, end, end - begin};
  }
  int64_t begin = o * l.stride - l.padding;
  const int64_t end = begin + (l.kernel - 1) * l.dilation + 1, padded = l.in + l.padding,
                span = (end < padded ? end : padded) - begin;
  if (begin < 0) begin += quotient(l.dilation - 1 - begin, l.dilation) * l.dilation;
  return {begin, end < l.in ? end : l.in, span};
}

// What the sum of a window is divided by; override_value 0: none.
struct PoolDivisor {
  bool include_pad;
  int64_t override_value;
  constexpr int64_t of(const PoolWindow& d, const PoolWindow& h, const PoolWindow& w) const {
    if (override_value != 0) return override_value;
    return include_pad ? d.span * h.span * w.span : (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
  }
};
inline constexpr PoolDivisor kWholeWindows{true, 0};  // adaptive ones

// The place that a window of nothing but -inf reports: its first.
constexpr int64_t nearest_place(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

// A later element wins only if it is greater, or not a number. A: what sums are kept in.
template <class A>
inline constexpr bool kPoolsFloats = std::is_same_v<A, float> || std::is_same_v<A, double>;
template <class A>
constexpr A lowest_number() {
  if constexpr (kPoolsFloats<A>)
    return -std::numeric_limits<A>::infinity();
  else
    return std::numeric_limits<A>::lowest();
}
template <class A>
constexpr bool replaces_maximum(A x, A max) {
  if constexpr (kPoolsFloats<A>)
    return x > max || x != x;
  else
    return x > max;
}

}  // namespace tessera::cpu
